"""Prints one of README's commands, so that CI runs what users are told to run: readme_command.py 1 or 2."""

import re
import sys
from pathlib import Path


def commands(readme: str) -> list[str]:
    """The contents of README's sh blocks, in order."""
    return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)]


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    print(commands((root / "README.md").read_text("utf-8"))[int(sys.argv[1]) - 1])
