"""Takes this machine out of texts: paths, host and user name, secrets of the environment.

A result file is published. Exception texts, options and specs carry the paths of the machine they come from;
each is replaced by a placeholder: <home>, <cwd>, <tmp>, <site-packages>, <python>, <suite>, or <path> for any
other absolute path, of which the last part stays.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

OTHER_PATH = re.compile(r"(?<![\w.<>/:~\-\])])/(?:[^\s/:'\"<>|,;()\[\]]+/)+([^\s/:'\"<>|,;()\[\]]*)")
WINDOWS_PATH = re.compile(r"\b[A-Za-z]:\\(?:[^\s\\'\"<>|:]+\\)*([^\s\\'\"<>|:]*)")
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE", re.IGNORECASE)
ORDINARY_NAMES = frozenset(
    {"root", "user", "localhost", "ubuntu", "debian", "runner", "admin", "test", "build", "default"}
)
"""Host and user names that say nothing, and that are words of our own sentences ("inside the root")."""


class Scrubber:
    """Replaces what belongs to one machine; made once, used for many texts.

    Args:
        paths: placeholder -> paths; this process's own where it is left out.
        words: words to replace -> placeholder; host, user and secrets of this process where left out.
    """

    def __init__(
        self,
        paths: Mapping[str, tuple[str, ...]] | None = None,
        words: Mapping[str, str] | None = None,
    ) -> None:
        pairs = [
            (path.rstrip("/\\"), placeholder)
            for placeholder, several in (_paths() if paths is None else paths).items()
            for path in several
            if len(path.rstrip("/\\")) > 1
        ]
        self._prefixes = [
            (re.compile(re.escape(path) + r"(?![\w.-])"), placeholder)
            for path, placeholder in sorted(set(pairs), key=lambda pair: (-len(pair[0]), pair))
        ]
        self._words = [
            (re.compile(r"(?<!\w)" + re.escape(word) + r"(?!\w)"), placeholder)
            for word, placeholder in sorted((_words() if words is None else words).items())
        ]

    def path(self, text: str) -> str:
        """Replace absolute paths."""
        if "/" in text or "\\" in text:
            for pattern, placeholder in self._prefixes:
                text = pattern.sub(placeholder, text)
            text = OTHER_PATH.sub(r"<path>/\1", text)
            text = WINDOWS_PATH.sub(r"<path>/\1", text)
        return text

    def text(self, text: str) -> str:
        """Replace absolute paths, host and user name, and secrets of the environment."""
        text = self.path(text)
        for pattern, placeholder in self._words:
            text = pattern.sub(placeholder, text)
        return text


def scrub(text: str) -> str:
    """Take this process's paths, host and user name and secrets out of a text."""
    return Scrubber().text(text)


def _paths() -> dict[str, tuple[str, ...]]:
    def both(*paths: str | os.PathLike[str] | None) -> tuple[str, ...]:
        given = [str(path) for path in paths if path]
        return tuple(dict.fromkeys([*given, *(os.path.realpath(path) for path in given)]))

    scheme = sysconfig.get_paths()
    try:
        home: str | None = str(Path.home())
    except RuntimeError:  # no home directory is known for this user
        home = None
    try:
        cwd: str | None = os.getcwd()
    except FileNotFoundError:  # the folder was removed under us
        cwd = None
    return {
        "<site-packages>": both(scheme["purelib"], scheme["platlib"]),
        "<python>": both(scheme["stdlib"], scheme["data"]),
        "<cwd>": both(cwd),
        "<tmp>": both(tempfile.gettempdir()),
        "<home>": both(home),
        "<suite>": both(Path(__file__).parents[1]),
    }


def _words() -> dict[str, str]:
    words: dict[str, str] = {}
    for name, value in os.environ.items():
        if SECRET.search(name) and len(value) >= 6:
            words[value] = "<environment>"
    host = socket.gethostname()
    for word, placeholder in (
        (host, "<host>"),
        (host.partition(".")[0], "<host>"),
        (_user(), "<user>"),
    ):
        if len(word) >= 4 and word.lower() not in ORDINARY_NAMES:
            words[word] = placeholder
    return words


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container user without an entry
        return ""
