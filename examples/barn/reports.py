"""Reports: work that blocks, off the event loop."""

import sqlite3
from contextlib import closing
from decimal import Decimal

from models import Kind, Total
from settings import settings

from oxbrook import Router

router = Router("/api/reports")


@router.get("/worth", blocking=True, tags=["reports"])
def worth() -> list[Total]:
    """Say what the barn holds of each kind.

    A plain function on the blocking pool: it may compute and wait as long as it takes, and holds up nobody.
    """
    totals = {kind: Total(kind=kind, items=0, worth=Decimal(0)) for kind in Kind}
    with closing(sqlite3.connect(f"file:{settings.database}?mode=ro", uri=True)) as connection:
        for kind, count, price in connection.execute("SELECT kind, count, price FROM items"):
            total = totals[Kind(kind)]
            total.items += 1
            total.worth += count * Decimal(price)
    return list(totals.values())
