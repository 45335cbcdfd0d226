"""Pictures of items: written to a file while they arrive, sent from it without Python."""

import asyncio
import uuid
from pathlib import Path
from typing import Annotated

import aiosqlite
from accounts import caller
from database import reading, row
from items import CHANGING, own
from models import Problem, User
from settings import place_of

from oxbrook import BodyStream, Depends, File, Header, HTTPError, Router

router = Router("/api/items")

# What a file of each type begins with.
SIGNATURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


def kind_of(path: Path) -> str | None:
    """Return the type of a picture by its first bytes; None for anything else, and where there is none."""
    try:
        with path.open("rb") as file:
            first = file.read(8)
    except FileNotFoundError:
        return None
    return next((kind for kind, signature in SIGNATURES.items() if first.startswith(signature)), None)


@router.put(
    "/{item_id}/picture",
    status=204,
    max_body=5_000_000,
    responses={**CHANGING, 400: Problem, 408: Problem, 413: Problem, 415: Problem},
    tags=["pictures"],
)
async def put_picture(
    item_id: int,
    body: BodyStream,
    content_type: Annotated[str, Header()] = "",
    user: User = Depends(caller),
    db: aiosqlite.Connection = Depends(reading),
) -> None:
    """Keep a picture of an item of one's own, PNG or JPEG. A refused one is not read."""
    await own(db, item_id, user)
    if content_type not in SIGNATURES:
        raise HTTPError(415, f"a picture is {' or '.join(SIGNATURES)}")
    path = place_of(item_id)
    part = path.with_name(f"{uuid.uuid4().hex}.part")
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    try:
        file = await asyncio.to_thread(part.open, "wb")
        try:
            async for piece in body:
                # A disk may be slow, and this loop has other requests.
                await asyncio.to_thread(file.write, piece)
        finally:
            await asyncio.to_thread(file.close)
        if await asyncio.to_thread(kind_of, part) != content_type:
            raise HTTPError(415, f"this is no {content_type}")
        await asyncio.to_thread(part.replace, path)
    finally:
        await asyncio.to_thread(part.unlink, missing_ok=True)


@router.get("/{item_id}/picture", responses={404: Problem}, tags=["pictures"])
async def get_picture(item_id: int, db: aiosqlite.Connection = Depends(reading)) -> File:
    """Send the picture of an item; part of it where a part is asked for."""
    known = await row(db, "SELECT id FROM items WHERE id = ?", item_id)
    kind = None if known is None else await asyncio.to_thread(kind_of, place_of(item_id))
    if kind is None:
        raise HTTPError(404, f"there is no picture of item {item_id}")
    return File(place_of(item_id), content_type=kind)
