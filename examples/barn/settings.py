"""What the environment says, read once at import."""

import secrets

from pydantic import Field, SecretStr

from oxbrook import Settings


class BarnSettings(Settings, prefix="BARN_"):
    """Variables `BARN_DATABASE`, `BARN_SECRET`, `BARN_SECURE_COOKIES` and `BARN_CONNECTIONS`."""

    # A file of SQLite; made where there is none.
    database: str = "barn.sqlite3"
    # Signs the session cookie. Without one, every start signs everybody out.
    secret: SecretStr = Field(default_factory=lambda: SecretStr(secrets.token_urlsafe(32)))
    # Browsers send the cookie over HTTPS alone; on behind TLS.
    secure_cookies: bool = False
    # Connections to the database, over all worker loops.
    connections: int = Field(default=8, ge=1)


settings = BarnSettings()
