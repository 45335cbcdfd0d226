//! What is behind the proxies of the scenario `app`: a bare hyper server that gives every body back as it came.
//!
//! Invariant: one thread; a body is passed on in the pieces it comes in, with its length and its type.

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

const USAGE: &str = "usage: echo --port PORT";

fn main() -> ExitCode {
    match parse(lexopt::Parser::from_env()).and_then(|port| serve(port).map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("echo: {message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: lexopt::Parser) -> Result<u16, String> {
    use lexopt::prelude::{Long, ValueExt};

    let mut port = None;
    while let Some(argument) = arguments.next().map_err(|error| error.to_string())? {
        match argument {
            Long("port") => {
                let value = arguments.value().map_err(|error| error.to_string())?;
                port = Some(value.parse().map_err(|error| error.to_string())?);
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    port.ok_or_else(|| "no --port".to_owned())
}

/// Serves until the process is ended.
fn serve(port: u16) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        loop {
            // As the floor does: one that fails is tried again.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::task::yield_now().await;
                continue;
            };
            stream.set_nodelay(true)?;
            tokio::spawn(answer(stream));
        }
    })
}

async fn answer(stream: TcpStream) {
    let service = service_fn(|request: Request<Incoming>| async {
        let content_type = request.headers().get(CONTENT_TYPE).cloned();
        let mut response = Response::new(request.into_body());
        if let Some(value) = content_type {
            response.headers_mut().insert(CONTENT_TYPE, value);
        }
        Ok::<_, Infallible>(response)
    });
    // A client that leaves in the middle is not this program's business.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
