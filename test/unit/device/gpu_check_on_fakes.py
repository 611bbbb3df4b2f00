#!/usr/bin/env python3
"""Runs gpu_check on fake devices: gpu_check_on_fakes.py GPU_CHECK DEVICES PART…, one segment per part."""
import os
import subprocess
import sys
import tempfile

program, devices, *parts = sys.argv[1:]
status = 0
for part in parts:
    with tempfile.NamedTemporaryFile(prefix="tutti_fake_nccl_", dir="/dev/shm") as segment:
        env = {**os.environ, "FAKE_NCCL_SEGMENT": segment.name, "FAKE_GPU_DEVICES": devices,
               "FAKE_GPU_IPC": "1" if part == "direct" else "0"}
        status |= subprocess.run([program, devices, part], env=env, check=False).returncode != 0
sys.exit(status)
