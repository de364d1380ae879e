#!/bin/sh
# Install the packages of both images. Run in the repository's folder: install_in_image.sh TORCH, where TORCH is "cpu"
# or a CUDA version as named by PyTorch's package index, such as cu126.
set -eu
torch=${1:-cpu}

# MuJoCo renders videos with EGL, or with OSMesa without a GPU.
apt-get update
apt-get install -y --no-install-recommends libegl1 libgl1 libosmesa6
rm -rf /var/lib/apt/lists/*

# The tested versions. Constraints must not name extras.
constraints=$(mktemp)
sed -E 's/\[[a-z]+\]//' env/requirements.txt >"$constraints"
export PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
# Install PyTorch first, from its own index: pip then keeps it and downloads no CUDA libraries for a CPU.
pip install --index-url "https://download.pytorch.org/whl/$torch" "$(grep '^torch==' "$constraints")"
pip install --constraint "$constraints" '.[analysis,atari,robotics,video]'
rm "$constraints"
