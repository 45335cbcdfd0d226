CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL REFERENCES users (id),
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL,
    price TEXT NOT NULL,
    UNIQUE (owner, name)
);

CREATE INDEX items_by_kind ON items (kind);
