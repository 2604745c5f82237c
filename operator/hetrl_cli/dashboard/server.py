"""The HTTP server of the page: ``answer`` makes the responses from a ``source``."""

import time
from collections.abc import AsyncIterator, Collection
from importlib.resources import files

from aiohttp import web
from aiohttp.typedefs import Handler

from hetrl_cli.dashboard.answer import definition, filled, span
from hetrl_cli.dashboard.boards.panel import Board
from hetrl_cli.dashboard.hosts import only
from hetrl_cli.dashboard.sources.source import Source, SourceError

_PAGE = files(__package__) / "page"
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_LONGEST_SECONDS = 400 * 24 * 3600.0

_HEADERS = {
    # Nothing from elsewhere, and nothing of ours inside another's page.
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def application(source: Source, hosts: Collection[str] = ("localhost",)) -> web.Application:
    """Return the web application over a source; it answers under these names and addresses."""
    boards = {each.name: each for each in source.boards}

    def board_of(request: web.Request) -> Board:
        name = request.query.get("board", "")
        if name not in boards:
            raise web.HTTPNotFound(text=f"no board {name!r}: there are {', '.join(boards)}")
        return boards[name]

    async def all_boards(_: web.Request) -> web.Response:
        found = [definition(each) for each in boards.values()]
        return web.json_response({"source": source.name, "boards": found})

    async def choices(request: web.Request) -> web.Response:
        return web.json_response(await source.choices(board_of(request)))

    async def figures(request: web.Request) -> web.Response:
        board = board_of(request)
        choice = {each.name: request.query.get(each.name, "") for each in board.variables}
        seconds = _seconds(request.query.get("seconds", ""))
        asked, is_live = await span(source, board, choice, seconds=seconds, now=time.time())
        return web.json_response(
            {
                "begin": asked.begin,
                "step": asked.step_seconds,
                "count": len(asked.times),
                "isLive": is_live,
                "panels": await filled(source, board, choice, asked),
            }
        )

    async def close(_: web.Application) -> AsyncIterator[None]:
        yield
        await source.close()

    found = web.Application(middlewares=[_answer, only(hosts)])
    found.router.add_get("/api/boards", all_boards)
    found.router.add_get("/api/choices", choices)
    found.router.add_get("/api/figures", figures)
    found.router.add_get("/{name:[a-z]*(?:[.][a-z]+)?}", _file)
    found.cleanup_ctx.append(close)
    return found


@web.middleware
async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        reply = await handler(request)
    except SourceError as error:
        reply = web.json_response({"error": str(error)}, status=502)
    except web.HTTPException as error:
        reply = web.json_response({"error": error.text}, status=error.status)
    reply.headers.update(_HEADERS)
    return reply


async def _file(request: web.Request) -> web.Response:
    name = request.match_info["name"] or "index.html"
    found = _PAGE / name
    type_ = _TYPES.get(name[name.rfind(".") :])
    if type_ is None or not found.is_file():
        raise web.HTTPNotFound(text=f"no {name} here")
    return web.Response(text=found.read_text(encoding="utf-8"), content_type=type_)


def _seconds(text: str) -> float | None:
    if text in {"", "all"}:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 1 <= seconds <= _LONGEST_SECONDS:
        raise web.HTTPBadRequest(
            text=f"seconds: {text!r} is not between 1 and {_LONGEST_SECONDS:.0f}, and not 'all'"
        )
    return seconds
