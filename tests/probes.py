"""Children of a probe, by what becomes of them."""

import sys
from pathlib import Path

__all__ = ["CHILDREN", "child"]

_FINE = "reply.write_text('{\"runs\": true}')"

CHILDREN = {
    "fine": _FINE,
    "ill": "os.kill(os.getpid(), signal.SIGILL)",
    "segv": "os.kill(os.getpid(), signal.SIGSEGV)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "hang": "time.sleep(3600)",
    "silent": "print('it runs, believe me')",
    "rubbish": "reply.write_bytes(bytes(range(256)))",
    "list": "reply.write_text('[1, 2]')",
    "exit": "sys.exit('no memory is left')",
    "error": 'reply.write_text(\'{"error": "the graph is cut off"}\')',
    "capped": (
        "os.environ.get('ONEDNN_MAX_CPU_ISA') == 'AVX512_CORE_FP16' "
        f"or os.kill(os.getpid(), signal.SIGILL); {_FINE}"
    ),
}


def child(behaviour: str, starts: Path) -> list[str]:
    """The command of a child, to which its folder is to be added; it notes that it was started."""
    script = (
        "import os, pathlib, signal, sys, time\n"
        f"with open({str(starts)!r}, 'a') as stream: print('started', file=stream)\n"
        "reply = pathlib.Path(sys.argv[-1]) / 'reply.json'\n"
        f"{CHILDREN[behaviour]}\n"
    )
    return [sys.executable, "-c", script]
