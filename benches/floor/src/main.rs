//! The benchmark floor: a bare hyper server on one thread that gives a static answer.
//!
//! Every figure of `cargo xtask bench` is divided by this program's in the same run, so it does what a server in
//! Rust cannot leave out and nothing else: no routes, no limits, no timeouts. Its answer has the status line, the
//! header bytes and the body of ours (api.md section 7: `content-type`, `content-length`, `date`), so that both
//! sides write as many bytes.
//!
//! Invariant: one thread, whatever the machine; default allocator; NODELAY; pipelined answers flushed together.

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

const USAGE: &str = "usage: floor [--host 127.0.0.1] [--port 8000] [--body TEXT]";
const CONTENT_TYPE_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

struct Options {
    address: SocketAddr,
    body: Bytes,
}

fn main() -> ExitCode {
    match parse(lexopt::Parser::from_env())
        .and_then(|options| serve(options).map_err(|error| error.to_string()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("floor: {message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: lexopt::Parser) -> Result<Options, String> {
    use lexopt::prelude::{Long, ValueExt};

    let mut host = IpAddr::from([127, 0, 0, 1]);
    let mut port = 8000;
    let mut body = Bytes::from_static(b"Hello, world!");
    while let Some(argument) = arguments.next().map_err(|error| error.to_string())? {
        let name = match argument {
            Long(name @ ("host" | "port" | "body")) => name.to_owned(),
            other => return Err(other.unexpected().to_string()),
        };
        let value = arguments.value().map_err(|error| error.to_string())?;
        match name.as_str() {
            "host" => host = value.parse().map_err(|error| error.to_string())?,
            "port" => port = value.parse().map_err(|error| error.to_string())?,
            _ => body = value.string().map_err(|error| error.to_string())?.into(),
        }
    }
    Ok(Options { address: SocketAddr::new(host, port), body })
}

/// Serves until the process is ended.
fn serve(options: Options) -> std::io::Result<()> {
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = listen(options.address)?;
        loop {
            // An accept that fails for want of descriptors is tried again: the floor must outlive 10,000 clients.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::task::yield_now().await;
                continue;
            };
            stream.set_nodelay(true)?;
            tokio::spawn(answer(stream, options.body.clone()));
        }
    })
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket =
        if address.is_ipv4() { tokio::net::TcpSocket::new_v4() } else { tokio::net::TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(2048)
}

async fn answer(stream: TcpStream, body: Bytes) {
    let service = service_fn(move |_request: Request<hyper::body::Incoming>| {
        let body = body.clone();
        async move {
            let mut response = Response::new(Full::new(body));
            response.headers_mut().insert(CONTENT_TYPE, CONTENT_TYPE_TEXT);
            Ok::<_, Infallible>(response)
        }
    });
    // A client that leaves in the middle is not the floor's business.
    let _ = http1::Builder::new().pipeline_flush(true).serve_connection(TokioIo::new(stream), service).await;
}

fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused: the limit stays as it is, and a run that needs more will say so.
    let _ = setrlimit(Resource::Nofile, limit);
}
