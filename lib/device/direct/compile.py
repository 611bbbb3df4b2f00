#!/usr/bin/env python3
"""compile.py NVCC SOURCE FATBIN HEADER: compiles the kernels, and writes a header that names the result."""
import pathlib
import subprocess
import sys

nvcc, source, fatbin, header = sys.argv[1:]
listed = subprocess.run([nvcc, "--list-gpu-code"], check=True, capture_output=True, text=True).stdout.split()
# Machine code for what is common now, and PTX for what comes later.
codes = [code for code in ("sm_80", "sm_90", "sm_100") if code in listed]
targets = [f"arch={code.replace('sm', 'compute')},code={code}" for code in codes]
targets.append(f"arch={codes[-1].replace('sm', 'compute')},code={codes[-1].replace('sm', 'compute')}")
options = [option for target in targets for option in ("-gencode", target)]
subprocess.run([nvcc, "-std=c++17", "-O3", "--expt-relaxed-constexpr", "-Xfatbin", "-compress-all", "--threads", "0", *options, "-fatbin", source, "-o", fatbin],
               check=True)
pathlib.Path(header).write_text(f'#pragma once\n#define TUTTI_KERNELS_FILE "{pathlib.Path(fatbin).resolve()}"\n', encoding="utf-8")
