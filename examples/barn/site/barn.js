// The page of the barn: everything it does is a call of the API under /api.

const find = (id) => document.getElementById(id);
const say = (text) => { find("message").textContent = text; };

async function call(method, path, body) {
  const headers = body && !(body instanceof FormData) ? { "Content-Type": "application/json" } : {};
  const answer = await fetch(path, { method, headers, body: body instanceof FormData ? body : body && JSON.stringify(body) });
  const value = answer.headers.get("content-type")?.includes("json") ? await answer.json() : null;
  if (!answer.ok) {
    const wrong = value?.errors?.map((one) => `${one.loc.slice(1).join(" ")}: ${one.msg}`).join("; ");
    throw new Error(wrong || value?.detail || answer.statusText);
  }
  return value;
}

// Runs what a form or a button does, and says what went wrong.
const acting = (act) => async (event) => {
  event.preventDefault();
  try {
    say("");
    await act(event);
    await show();
  } catch (error) {
    say(error.message);
  }
};

function line(item, me) {
  const row = document.createElement("tr");
  for (const key of ["name", "kind", "count", "price", "owner"]) row.insertCell().textContent = item[key];
  const last = row.insertCell();
  if (item.owner === me?.name) {
    const button = document.createElement("button");
    button.textContent = "Remove";
    button.onclick = acting(() => call("DELETE", `/api/items/${item.id}`));
    last.append(button);
  }
  return row;
}

async function show() {
  const me = await call("GET", "/api/me").catch(() => null);
  find("account").hidden = Boolean(me);
  find("me").hidden = !me;
  find("me").firstElementChild.textContent = me?.name ?? "";
  const { items, total } = await call("GET", `/api/items?limit=100&search=${encodeURIComponent(find("search").value)}`);
  find("items").replaceChildren(...items.map((item) => line(item, me)));
  document.title = `Barn (${total})`;
  const worth = await call("GET", "/api/reports/worth");
  find("worth").replaceChildren(...worth.flatMap(({ kind, worth }) => {
    const [name, value] = [document.createElement("dt"), document.createElement("dd")];
    name.textContent = kind;
    value.textContent = worth;
    return [name, value];
  }));
}

find("account").onsubmit = acting(async (event) => {
  const given = Object.fromEntries(new FormData(event.target));
  if (event.submitter.value === "up") await call("POST", "/api/users", given);
  await call("POST", "/api/session", given);
  event.target.reset();
});
find("out").onclick = acting(() => call("DELETE", "/api/session"));
find("add").onsubmit = acting(async (event) => {
  const given = Object.fromEntries(new FormData(event.target));
  await call("POST", "/api/items", { ...given, count: Number(given.count) });
});
find("import").onsubmit = acting(async (event) => {
  const { added } = await call("POST", "/api/items/import", new FormData(event.target));
  event.target.reset();
  say(`${added} items added`);
});
find("search").oninput = acting(async () => {});
show();
