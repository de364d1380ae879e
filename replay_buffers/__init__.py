"""The catalog of methods: one file per method, with its paper, its defaults and its composition."""

from replay_buffers.attentive import Attentive
from replay_buffers.bier import BIER
from replay_buffers.cer import CER
from replay_buffers.continuous_transition import ContinuousTransition
from replay_buffers.elite import Elite
from replay_buffers.ere import ERE
from replay_buffers.event_tables import EventTables
from replay_buffers.her import HER
from replay_buffers.knn import KNNOutcome
from replay_buffers.la3p import LA3P
from replay_buffers.laber import LaBER
from replay_buffers.lap import LAP
from replay_buffers.lcer import LCER
from replay_buffers.mixup import NaiveMixup
from replay_buffers.nmer import NMER
from replay_buffers.noise import Noise
from replay_buffers.online import Online
from replay_buffers.per import PER
from replay_buffers.relo import ReLo
from replay_buffers.s4rl import S4RL
from replay_buffers.truncated_geometric import TruncatedGeometric
from replay_buffers.uniform import Uniform

__all__ = [
    "Attentive",
    "BIER",
    "CER",
    "ContinuousTransition",
    "Elite",
    "ERE",
    "EventTables",
    "HER",
    "KNNOutcome",
    "LA3P",
    "LaBER",
    "LAP",
    "LCER",
    "NaiveMixup",
    "NMER",
    "Noise",
    "Online",
    "PER",
    "ReLo",
    "S4RL",
    "TruncatedGeometric",
    "Uniform",
]
