//! Probes that are answered without the service.

mod support;

use std::sync::Arc;
use std::time::Duration;

use oxb_http::health::Health;
use oxb_http::options::ServerOptions;
use support::Site;

fn site_with(health: &Arc<Health>) -> Site {
    Site::start(ServerOptions { health: Some(Arc::clone(health)), ..ServerOptions::default() })
}

#[test]
fn probes_are_answered_until_the_server_drains() {
    let health = Arc::new(Health::new("/livez", "/readyz", Duration::from_secs(10), false));
    let site = site_with(&health);
    let mut client = site.connect();
    for (path, body) in [("/livez", "{\"status\":\"ok\"}"), ("/readyz?x", "{\"status\":\"ready\"}")] {
        let answer = client.get(path);
        assert_eq!((answer.status, answer.text()), (200, body));
    }
    assert_eq!(client.get("/hello").status, 200);
    health.drain();
    let answer = client.get("/readyz");
    assert_eq!((answer.status, answer.text()), (503, "{\"status\":\"draining\"}"));
    assert_eq!(client.get("/livez").status, 200);
    drop(client);
    site.finish();
}

#[test]
fn readiness_with_checks_is_the_route_of_the_program() {
    let health = Arc::new(Health::new("/livez", "/hello", Duration::from_secs(10), true));
    let site = site_with(&health);
    let mut client = site.connect();
    assert_ne!(client.get("/hello").text(), "{\"status\":\"ready\"}");
    health.drain();
    assert_eq!(client.get("/hello").status, 503);
    drop(client);
    site.finish();
}
