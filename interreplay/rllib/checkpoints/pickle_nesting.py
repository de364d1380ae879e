"""How deeply the values in a pickle are nested, found without loading it.

Python loads nested tuples and queues of any depth, and overflows its stack, which ends the process, when it hashes or
frees them.
"""

from __future__ import annotations

import pickletools
from typing import BinaryIO

MOST = 1000
"""Levels; the states of algorithms have some ten."""
_LEAF = -1
_MARK = -2
_CHANGES = {"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"}
_PUTS = {"PUT", "BINPUT", "LONG_BINPUT"}
_GETS = {"GET", "BINGET", "LONG_BINGET"}


def check_nesting(file: BinaryIO) -> None:
    """Check that nothing in a pickle is nested in more than `MOST` levels.

    Raises:
        ValueError: It is, or the pickle is malformed.
    """
    parts = _parts(file)
    above = [0] * len(parts)
    for held in parts:
        for part in held:
            above[part] += 1
    level = [value for value, count in enumerate(above) if count == 0]
    levels = 0
    left = len(parts)
    while level:
        levels += 1
        left -= len(level)
        below = []
        for value in level:
            for part in parts[value]:
                above[part] -= 1
                if above[part] == 0:
                    below.append(part)
        level = below
    if levels > MOST or left > MOST:  # what is left holds itself, or is held by what does
        raise ValueError(f"its values are nested in more than {MOST:,} levels")


def _parts(file: BinaryIO) -> list[list[int]]:
    """Return of every value in a pickle that is made of others the numbers of these."""
    parts: list[list[int]] = []
    stack: list[int] = []
    memo: dict[int, int] = {}
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name == "MARK":
            stack.append(_MARK)
        elif opcode.name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif opcode.name in _PUTS:
            memo[int(str(argument))] = stack[-1]
        elif opcode.name in _GETS:
            stack.append(memo[int(str(argument))])
        elif opcode.name == "DUP":
            stack.append(stack[-1])
        elif opcode.name == "POP":
            stack.pop()
        else:
            _apply(opcode, stack, parts)
    return parts


def _apply(opcode: pickletools.OpcodeInfo, stack: list[int], parts: list[list[int]]) -> None:
    """Replace what an opcode takes from the stack by what it puts there."""
    taken: list[int] = []
    below = len(opcode.stack_before)
    if pickletools.markobject in opcode.stack_before:
        below = opcode.stack_before.index(pickletools.markobject)
        while (value := stack.pop()) != _MARK:
            taken.append(value)
    taken += [stack.pop() for _ in range(below)]
    if not opcode.stack_after:
        return
    changed = taken[-1] if opcode.name in _CHANGES else _LEAF
    if changed != _LEAF:
        parts[changed] += [value for value in taken[:-1] if value != _LEAF]
        stack.append(changed)
    elif opcode.stack_before or opcode.name.startswith("EMPTY"):
        parts.append([value for value in taken if value != _LEAF])
        stack.append(len(parts) - 1)
    else:
        stack.append(_LEAF)
