"""What the environment says, read once at import."""

import secrets
from pathlib import Path

from pydantic import Field, SecretStr

from oxbrook import Settings


class BarnSettings(Settings, prefix="BARN_"):
    """Each is the variable `BARN_` and its name in upper case; `oxbrook settings main` lists them."""

    # A file of SQLite; made where there is none.
    database: str = "barn.sqlite3"
    # A folder of pictures; made where there is none.
    pictures: str = "barn-pictures"
    # Signs the session cookie. Without one, every start signs everybody out.
    secret: SecretStr = Field(default_factory=lambda: SecretStr(secrets.token_urlsafe(32)))
    # Browsers send the cookie over HTTPS alone; on behind TLS.
    secure_cookies: bool = False
    # Connections to the database, over all worker loops.
    connections: int = Field(default=8, ge=1)


settings = BarnSettings()


def place_of(item_id: int) -> Path:
    """Return where the picture of an item is kept."""
    return Path(settings.pictures) / str(item_id)
