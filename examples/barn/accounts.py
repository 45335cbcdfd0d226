"""Accounts: who one is, and how one says so."""

import asyncio
import base64
import hashlib
import hmac
import os

import aiosqlite
from database import connect, reading, row, writing
from models import Credentials, Problem, User
from settings import settings

from oxbrook import Depends, HTTPError, Request, Router, Session, Sessions

router = Router("/api")
sessions = Sessions(settings.secret.get_secret_value(), cookie="barn", secure=settings.secure_cookies)

SCRYPT = {"n": 2**14, "r": 8, "p": 1}


def hashed(password: str, salt: bytes | None = None) -> str:
    """Return a password as it is kept: salt and hash."""
    salt = os.urandom(16) if salt is None else salt
    key = hashlib.scrypt(password.encode(), salt=salt, n=SCRYPT["n"], r=SCRYPT["r"], p=SCRYPT["p"])
    return ":".join(base64.b64encode(part).decode() for part in (salt, key))


def matches(password: str, kept: str) -> bool:
    """Whether this is the password that was kept."""
    salt = base64.b64decode(kept.partition(":")[0])
    return hmac.compare_digest(hashed(password, salt), kept)


# Compared with when there is no such user, so that both take the same time.
NOBODY = hashed("nobody's password")


async def caller(
    session: Session = Depends(sessions.load), db: aiosqlite.Connection = Depends(reading)
) -> User:
    """Return who asks.

    Raises: HTTPError 401 for one that is not signed in.
    """
    found = await row(db, "SELECT id, name, made_at FROM users WHERE id = ?", session.get("user", 0))
    if found is None:
        raise HTTPError(401, "sign in first: POST /api/session")
    return User.model_validate(found)


async def note(what: str) -> None:
    """Write down what happened, when its answer is out already."""
    connection = await connect()
    try:
        await connection.execute("INSERT INTO events (what) VALUES (?)", (what,))
    finally:
        await connection.close()


@router.post("/users", status=201, responses={409: Problem}, tags=["accounts"])
async def sign_up(
    request: Request, credentials: Credentials, db: aiosqlite.Connection = Depends(writing)
) -> User:
    """Make an account."""
    if await row(db, "SELECT id FROM users WHERE name = ?", credentials.name):
        raise HTTPError(409, f"the name {credentials.name} is taken")
    password = await asyncio.to_thread(hashed, credentials.password)
    made = await row(
        db,
        "INSERT INTO users (name, password) VALUES (?, ?) RETURNING id, name, made_at",
        credentials.name,
        password,
    )
    request.after_response(note, f"{credentials.name} signed up")
    return User.model_validate(made)


@router.post("/session", responses={401: Problem}, tags=["accounts"])
async def sign_in(
    credentials: Credentials,
    session: Session = Depends(sessions.load),
    db: aiosqlite.Connection = Depends(reading),
) -> User:
    """Sign in: the answer sets a cookie."""
    found = await row(db, "SELECT * FROM users WHERE name = ?", credentials.name)
    kept = NOBODY if found is None else str(found["password"])
    if not await asyncio.to_thread(matches, credentials.password, kept) or found is None:
        raise HTTPError(401, "no such name and password")
    session.clear()
    session["user"] = found["id"]
    return User.model_validate(found)


@router.delete("/session", status=204, tags=["accounts"])
async def sign_out(session: Session = Depends(sessions.load)) -> None:
    """Sign out."""
    session.clear()


@router.get("/me", responses={401: Problem}, tags=["accounts"])
async def me(user: User = Depends(caller)) -> User:
    """Say who is signed in."""
    return user
