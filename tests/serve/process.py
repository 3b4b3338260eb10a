"""The server as a process, with models that need no weights: python -m tests.serve.process '{}'."""

import json
import sys

from tertium.serve.run import serve
from tertium.serve.service import Service
from tertium.serve.settings import read_settings

LOADER = "tests.serve.fakes:load"  # not imported: this process holds no model


def ready(url: str, service: Service) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(read_settings(json.loads(sys.argv[1])), ready=ready, loader=LOADER)
