"""The credits page: every system in the table has a complete BibTeX entry."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "credits.md").read_text()
ENTRIES = re.findall(r"^@(\w+)\{(\w+),\n(.*?)^\}", PAGE, re.MULTILINE | re.DOTALL)
OF_SYSTEMS = {
    "rmsander/interreplay, NMER": "sander2022nmer",
    "rmsander/interreplay, BIER": "sander2021bier",
    "szahlner/lcer": "zahlner2022lcer",
    "cyoon1729/RLcycle": "yoon2020rlcycle",
    "parralplex/elite_buffer_vtrace": "parradoxsvk2022elite",
}


def test_every_system_has_an_entry():
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and "/" in line]
    named = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row.split("|")[1]).strip() for row in rows]
    assert named == list(OF_SYSTEMS) and [key for _, key, _ in ENTRIES] == list(OF_SYSTEMS.values())


def test_entries_are_complete():
    required = {"inproceedings": {"booktitle", "pages"}, "mastersthesis": {"school"}, "misc": {"howpublished"}}
    for kind, key, body in ENTRIES:
        fields = set(re.findall(r"^  (\w+) += \{", body, re.MULTILINE))
        assert {"title", "author", "year"} | required[kind] <= fields, key
        assert body.count("{") == body.count("}"), key
        year = re.search(r"year += \{(\d{4})\}", body)
        assert year and year[1] in key, key
