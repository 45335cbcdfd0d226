"""Items: everybody reads them, their owner changes them."""

import csv
import io
from collections.abc import AsyncIterator
from typing import Annotated, Any

import aiosqlite
from accounts import caller, note
from database import Pool, reading, row, rows, writing
from models import Import, Imported, Item, Kind, Listed, NewItem, Problem, User
from pydantic import ValidationError
from settings import place_of

from oxbrook import Depends, Form, HTTPError, Query, Reply, Request, RequestValidationError, Router, Stream

router = Router("/api")

ITEM = (
    "SELECT items.id, items.name, kind, count, price, users.name AS owner "
    "FROM items JOIN users ON users.id = items.owner"
)
COLUMNS = ["name", "kind", "count", "price"]
ROWS_OF_A_FILE = 10_000


def values_of(item: NewItem) -> tuple[str, str, int, str]:
    """Return an item as the database keeps it."""
    return item.name, item.kind.value, item.count, str(item.price)


async def own(db: aiosqlite.Connection, item_id: int, user: User) -> Item:
    """Return an item of this user.

    Raises: HTTPError 404 where there is none, 403 where it is somebody else's.
    """
    found = await row(db, f"{ITEM} WHERE items.id = ?", item_id)
    if found is None:
        raise HTTPError(404, f"no item {item_id}")
    item = Item.model_validate(found)
    if item.owner != user.name:
        raise HTTPError(403, f"item {item_id} belongs to {item.owner}")
    return item


@router.get("/items", tags=["items"])
async def list_items(
    kind: Kind | None = None,
    search: Annotated[str, Query(pattern=r"^[^\x00]*$")] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    db: aiosqlite.Connection = Depends(reading),
) -> Listed:
    """List items by name."""
    where = "WHERE (? IS NULL OR kind = ?) AND instr(lower(items.name), lower(?))"
    chosen = None if kind is None else kind.value
    found = await rows(
        db,
        f"{ITEM} {where} ORDER BY items.name, items.id LIMIT ? OFFSET ?",
        chosen,
        chosen,
        search,
        limit,
        offset,
    )
    total = await row(db, f"SELECT count(*) AS total FROM items {where}", chosen, chosen, search)
    return Listed.model_validate({"items": found, **(total or {"total": 0})})


@router.post("/items", status=201, responses={401: Problem, 409: Problem}, tags=["items"])
async def add_item(
    new: NewItem, user: User = Depends(caller), db: aiosqlite.Connection = Depends(writing)
) -> Reply:
    """Add an item."""
    made = await row(
        db,
        "INSERT INTO items (name, kind, count, price, owner) VALUES (?, ?, ?, ?, ?) RETURNING id",
        *values_of(new),
        user.id,
    )
    assert made is not None
    item = Item(id=int(str(made["id"])), owner=user.name, **new.model_dump())
    return Reply(item, headers={"Location": f"/api/items/{item.id}"})


@router.get("/items/{item_id}", responses={404: Problem}, tags=["items"])
async def read_item(item_id: int, db: aiosqlite.Connection = Depends(reading)) -> Item:
    """Read an item."""
    found = await row(db, f"{ITEM} WHERE items.id = ?", item_id)
    if found is None:
        raise HTTPError(404, f"no item {item_id}")
    return Item.model_validate(found)


CHANGING: dict[int, Any] = {401: Problem, 403: Problem, 404: Problem}


@router.put("/items/{item_id}", responses={**CHANGING, 409: Problem}, tags=["items"])
async def change_item(
    item_id: int, new: NewItem, user: User = Depends(caller), db: aiosqlite.Connection = Depends(writing)
) -> Item:
    """Change an item of one's own."""
    await own(db, item_id, user)
    await db.execute(
        "UPDATE items SET name = ?, kind = ?, count = ?, price = ? WHERE id = ?", (*values_of(new), item_id)
    )
    return Item(id=item_id, owner=user.name, **new.model_dump())


@router.delete("/items/{item_id}", status=204, responses=CHANGING, tags=["items"])
async def remove_item(
    request: Request,
    item_id: int,
    user: User = Depends(caller),
    db: aiosqlite.Connection = Depends(writing),
) -> None:
    """Remove an item of one's own, and its picture."""
    await own(db, item_id, user)
    await db.execute("DELETE FROM items WHERE id = ?", (item_id,))
    # Once it is certain that the item is gone; a plain function runs on the blocking pool.
    request.after_response(place_of(item_id).unlink, missing_ok=True)


def parsed(text: str) -> list[NewItem]:
    """Read a file of items.

    Raises: HTTPError 400 for a file that is not one, RequestValidationError naming each line that does not
        fit.
    """
    lines = csv.DictReader(io.StringIO(text), strict=True)
    found: list[NewItem] = []
    errors: list[dict[str, Any]] = []
    try:
        if lines.fieldnames != COLUMNS:
            raise HTTPError(400, f"the first line of the file is {','.join(COLUMNS)}")
        for fields in lines:
            if len(found) == ROWS_OF_A_FILE:
                raise HTTPError(400, f"a file has at most {ROWS_OF_A_FILE} items")
            try:
                found.append(NewItem.model_validate({name: fields[name] for name in COLUMNS}))
            except ValidationError as error:
                errors += [
                    {"type": one["type"], "loc": ["file", lines.line_num, *one["loc"]], "msg": one["msg"]}
                    for one in error.errors()
                ]
    except csv.Error as error:
        raise HTTPError(400, f"line {lines.line_num} of the file: {error}") from None
    if errors:
        raise RequestValidationError(errors)
    return found


@router.post(
    "/items/import",
    responses={400: Problem, 401: Problem, 409: Problem, 413: Problem, 415: Problem},
    max_body=4_000_000,
    tags=["items"],
)
async def import_items(
    request: Request,
    form: Import = Form(max_parts=2),
    user: User = Depends(caller),
    db: aiosqlite.Connection = Depends(writing),
) -> Imported:
    """Add the items of a CSV file, all or none."""
    try:
        text = form.file.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HTTPError(400, "the file is no UTF-8") from None
    items = parsed(text)
    replaced = 0
    if form.replace:
        cursor = await db.execute("DELETE FROM items WHERE owner = ?", (user.id,))
        replaced = cursor.rowcount
    await db.executemany(
        "INSERT INTO items (name, kind, count, price, owner) VALUES (?, ?, ?, ?, ?)",
        [(*values_of(item), user.id) for item in items],
    )
    request.after_response(note, f"{user.name} imported {len(items)} items")
    return Imported(added=len(items), replaced=replaced)


@router.get("/items/export", tags=["items"])
async def export_items(request: Request) -> Stream:
    """Give all items as CSV, as they are read from the database."""
    headers = {"Content-Disposition": 'attachment; filename="items.csv"'}
    return Stream(lines(request.state.pool), content_type="text/csv; charset=utf-8", headers=headers)


async def lines(pool: Pool) -> AsyncIterator[str]:
    """Yield the lines of the file. Its source outlives the handler, so it borrows a connection itself."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    connection = await pool.get()
    try:
        async with connection.execute("SELECT name, kind, count, price FROM items ORDER BY id") as cursor:
            async for one in cursor:
                writer.writerow(one)
                if out.tell() > 16_384:
                    yield out.getvalue()
                    out.seek(0)
                    out.truncate()
        yield out.getvalue()
    finally:
        pool.put_nowait(connection)
