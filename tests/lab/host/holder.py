# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that holds GPU memory; argv: GPU number, MiB, the name that it takes."""

import ctypes
import signal
import sys

PR_SET_NAME, CONTEXT_MIB = 15, 500

gpu, mib = int(sys.argv[1]), int(sys.argv[2])
ctypes.CDLL(None).prctl(PR_SET_NAME, sys.argv[3].encode()[:15], 0, 0, 0)
cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
codes = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu)]
codes.append(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t((mib - CONTEXT_MIB) << 20)))
if any(codes):
    sys.exit(f"no memory for the holder: {codes}")
signal.pause()
