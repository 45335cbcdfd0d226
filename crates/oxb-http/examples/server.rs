//! A server without Python: three routes, limits at their defaults, a graceful end on SIGINT and SIGTERM.
//!
//! ```sh
//! cargo run -p oxb-http --example server -- 127.0.0.1:8000
//! curl -i http://127.0.0.1:8000/jobs/7
//! ```

use std::sync::Arc;
use std::time::Duration;

use oxb_http::options::{Place, ServerOptions};
use oxb_http::params::{Limits, ParamKind, ParamSpec, Presence, Source, Value};
use oxb_http::reply::Reply;
use oxb_http::router::RouterBuilder;
use oxb_http::server::Server;
use oxb_http::service::Handlers;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const TEXT: &str = "text/plain; charset=utf-8";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".into());
    let (host, port) = place.rsplit_once(':').ok_or("expected HOST:PORT")?;
    let place = Place::Tcp { host: host.into(), port: port.parse()? };

    let mut routes = RouterBuilder::new();
    let mut handlers = Handlers::new();
    routes.add("GET", "/hello", vec![])?;
    handlers.add(|_request| async { Reply::new(200, TEXT, "hello\n") });

    // Coerced before the handler is called: /jobs/x is a 422.
    let id = ParamSpec {
        name: "id".into(),
        source: Source::Path,
        kind: ParamKind::Int,
        presence: Presence::Required,
        is_list: false,
        limits: Limits::default(),
    };
    routes.add("GET", "/jobs/{id}", vec![id])?;
    handlers.add(|request| async move {
        match request.values() {
            [Value::Int(id)] => Reply::new(200, "application/json", format!("{{\"id\":{id}}}")),
            _ => Reply::new(500, TEXT, "the route declares one integer\n"),
        }
    });

    routes.add("POST", "/echo", vec![])?;
    handlers
        .add(|request| async move { Reply::new(200, "application/octet-stream", request.body().clone()) });

    // Before a thread exists that a signal could end up on.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let mut bound = Server::bind(place, ServerOptions::default())?;
    if let Some(lowered) = bound.fit_descriptors() {
        eprintln!("max_connections lowered from {} to {}", lowered.from, lowered.to);
    }
    let mut running = bound.start(routes.build(), vec![], Arc::new(handlers))?;
    println!("listening on http://{}", running.address());

    signals.forever().next();
    running.drain();
    if !running.wait_closed(Duration::from_secs(10)) {
        eprintln!("{} request(s) still in flight", running.in_flight());
    }
    running.close();
    Ok(())
}
