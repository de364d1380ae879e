#!/bin/sh
# What both image definitions install, in the repository's folder: install_in_image.sh TORCH, where TORCH is "cpu" or a
# CUDA version as PyTorch's package index names it, such as cu126.
set -eu
torch=${1:-cpu}

# MuJoCo draws videos with EGL, or with OSMesa where there is no graphics card.
apt-get update
apt-get install -y --no-install-recommends libegl1 libgl1 libosmesa6
rm -rf /var/lib/apt/lists/*

# The versions that the project is tested with, without its tools; a constraint names no extras.
constraints=$(mktemp)
sed -E 's/\[[a-z]+\]//' env/requirements.txt >"$constraints"
export PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
# PyTorch first, from its own index: pip keeps it then, and downloads no CUDA libraries for a CPU.
pip install --index-url "https://download.pytorch.org/whl/$torch" "$(grep '^torch==' "$constraints")"
pip install --constraint "$constraints" '.[analysis,robotics,video]'
rm "$constraints"
