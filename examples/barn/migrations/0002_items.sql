CREATE TABLE items (
    -- No id is given twice: a picture lies under it.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER NOT NULL REFERENCES users (id),
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL,
    price TEXT NOT NULL,
    UNIQUE (owner, name)
);

CREATE INDEX items_by_kind ON items (kind);
