"""A server that answers as S3 does for one bucket, on loopback."""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.runtime.data.loopback import serving

BUCKET = "sums"
KEY_ID = "reader"
MODIFIED = "2026-01-01T00:00:00.000Z"


@dataclass
class Bucket:
    """What the bucket has, and what it was asked."""

    objects: dict[str, bytes] = field(default_factory=dict)
    status: list[int] = field(default_factory=list)
    """What it answers next instead; 0: as it should."""

    asked: list[str] = field(default_factory=list)

    def listing(self, prefix: str) -> bytes:
        """Return what lies in one folder, as ListObjectsV2 does with a delimiter."""
        found = [
            f"<Contents><Key>{escape(key)}</Key><LastModified>{MODIFIED}</LastModified>"
            f"<ETag>{etag_of(data)}</ETag><Size>{len(data)}</Size></Contents>"
            for key, data in sorted(self.objects.items())
            if key.startswith(prefix) and "/" not in key.removeprefix(prefix)
        ]
        return (
            f'<?xml version="1.0"?><ListBucketResult><Name>{BUCKET}</Name><IsTruncated>false'
            f"</IsTruncated>{''.join(found)}</ListBucketResult>"
        ).encode()


def etag_of(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    """Answers for a bucket."""

    protocol_version = "HTTP/1.1"
    bucket: Bucket

    def do_HEAD(self) -> None:  # the library's name
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        self.bucket.asked.append(f"{self.command} {self.path} {self.headers.get('Range', '')}")
        if self.bucket.status and (status := self.bucket.status.pop(0)):
            self.send(status, b"<Error><Code>Made</Code></Error>")
            return
        if f"Credential={KEY_ID}/" not in self.headers.get("Authorization", ""):
            self.send(403, b"<Error><Code>AccessDenied</Code></Error>")
            return
        url = urlsplit(self.path)
        key = unquote(url.path).removeprefix(f"/{BUCKET}").removeprefix("/")
        if not key:
            self.send(200, self.bucket.listing(parse_qs(url.query).get("prefix", [""])[0]))
        elif key in self.bucket.objects:
            self.give(self.bucket.objects[key])
        else:
            self.send(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def give(self, data: bytes) -> None:
        etag = etag_of(data)
        headers = {"ETag": etag, "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        if self.headers.get("If-Match", etag) != etag:
            self.send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        part = self.headers.get("Range")
        if not part:
            self.send(200, data, **headers)
            return
        first, last = (int(each) for each in part.removeprefix("bytes=").split("-"))
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        self.send(206, data[first : last + 1], **headers)

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
def served() -> Iterator[tuple[Bucket, str]]:
    """Serve a bucket that has nothing yet; yield it and its address."""
    bucket = Bucket()
    with serving(type("Bound", (Handler,), {"bucket": bucket})) as address:
        yield bucket, address


def environment(address: str) -> dict[str, str]:
    """Return what leads a client there, and lets it in."""
    return {
        "AWS_ENDPOINT": address,
        "AWS_REGION": "here",
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
