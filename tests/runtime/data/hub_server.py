"""A server that answers as the Hugging Face hub does for one data set, on loopback."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.runtime.data.loopback import serving

NAME = "team/sums"


@dataclass
class Hub:
    """What the hub has, and what it was asked."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    status: list[int] = field(default_factory=list)
    """What it answers next instead; 0: as it should."""

    asked: list[str] = field(default_factory=list)
    token: str = ""
    """Of who may read; empty: everybody may."""

    def publish(self, commit: str, **files: bytes) -> None:
        self.commits[commit] = {name.replace("__", "/"): data for name, data in files.items()}
        self.branches["main"] = commit

    def commit(self, revision: str) -> str:
        return self.branches.get(revision, revision)

    def info(self, revision: str) -> dict[str, object] | None:
        commit = self.commit(revision)
        if commit not in self.commits:
            return None
        siblings = [{"rfilename": name} for name in self.commits[commit]]
        return {"id": NAME, "sha": commit, "siblings": siblings}

    def tree(self, revision: str) -> list[dict[str, object]]:
        return [
            {
                "type": "file",
                "path": name,
                "size": len(data),
                "oid": hashlib.sha1(data).hexdigest(),
            }  # as git does
            for name, data in self.commits[self.commit(revision)].items()
        ]


class Handler(BaseHTTPRequestHandler):
    """Answers for a hub."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:  # the library's name
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        self.hub.asked.append(self.path)
        if self.hub.status and (status := self.hub.status.pop(0)):
            self.send(status, b"{}")
            return
        if self.hub.token and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            self.send(401, b"{}", **{"X-Error-Code": "GatedRepo"})
            return
        path = self.path.partition("?")[0]
        api, files = f"/api/datasets/{NAME}", f"/datasets/{NAME}/resolve/"
        if path.startswith(f"{api}/revision/"):
            found = self.hub.info(path.rpartition("/")[2])
            self.send(200, json.dumps(found).encode()) if found else self.send(
                404, b"{}", **{"X-Error-Code": "RevisionNotFound"}
            )
        elif path.startswith(f"{api}/tree/"):
            self.send(200, json.dumps(self.hub.tree(path.split("/")[6])).encode())
        elif path.startswith(files):
            revision, _, name = path.removeprefix(files).partition("/")
            commit = self.hub.commit(revision)
            data = self.hub.commits[commit][name]
            etag = hashlib.sha256(data).hexdigest()
            self.send(200, data, ETag=f'"{etag}"', **{"X-Repo-Commit": commit})
        else:
            self.send(404, b"{}", **{"X-Error-Code": "RepoNotFound"})

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served() -> Iterator[tuple[Hub, str]]:
    """Serve a hub that has nothing yet; yield it and its address."""
    hub = Hub()
    with serving(type("Bound", (Handler,), {"hub": hub})) as address:
        yield hub, address
