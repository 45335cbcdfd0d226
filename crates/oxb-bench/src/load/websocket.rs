//! WebSocket connections of clients, by tokio-tungstenite, and what their errors are called.
//!
//! Invariant: an error of the library is one kind of failure, and a close frame is an end like any other.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::outcome::Failure;
use super::target::{RequestSpec, Target};
use super::transport::Transport;

pub(super) type Socket = WebSocketStream<Transport>;

/// Of each connection; the library's own is larger than a thousand connections should have.
const READ_BUFFER: usize = 16 * 1024;

/// Connects and shakes hands.
pub(super) async fn open(
    target: &Target,
    number: usize,
    request: &RequestSpec,
    limit: Duration,
) -> Result<Socket, Failure> {
    let shaken = async {
        let transport = target.connect(number).await.map_err(|_| Failure::Connect)?;
        let uri = format!("ws://{}{}", target.host(), request.path);
        let mut handshake = uri.into_client_request().map_err(|error| failure(&error))?;
        for (name, value) in &request.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|_| Failure::Protocol)?;
            let value = HeaderValue::try_from(value.as_str()).map_err(|_| Failure::Protocol)?;
            handshake.headers_mut().append(name, value);
        }
        let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER);
        let connected = tokio_tungstenite::client_async_with_config(handshake, transport, Some(config)).await;
        connected.map(|(socket, _)| socket).map_err(|error| failure(&error))
    };
    tokio::time::timeout(limit, shaken).await.unwrap_or(Err(Failure::Timeout))
}

/// The next message with content.
pub(super) async fn next(
    socket: &mut (impl StreamExt<Item = Result<Message, Error>> + Unpin),
) -> Result<Message, Failure> {
    loop {
        match socket.next().await {
            Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => return Ok(message),
            Some(Ok(Message::Close(_))) | None => return Err(Failure::Closed),
            // The library answers a ping by itself.
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(failure(&error)),
        }
    }
}

/// Sends a message and flushes it.
pub(super) async fn send(
    socket: &mut (impl SinkExt<Message, Error = Error> + Unpin),
    message: Message,
) -> Result<(), Failure> {
    socket.send(message).await.map_err(|error| failure(&error))
}

/// A message of `text`, filled up to `length` bytes.
pub(super) fn message(text: &str, length: usize, is_binary: bool) -> Message {
    let mut text = text.to_owned();
    text.extend(std::iter::repeat_n('.', length.saturating_sub(text.len())));
    if is_binary { Message::Binary(text.into_bytes().into()) } else { Message::Text(text.into()) }
}

fn failure(error: &Error) -> Failure {
    use tokio_tungstenite::tungstenite::error::ProtocolError;

    match error {
        Error::Http(response) => Failure::Status(response.status().as_u16()),
        Error::Io(error) => Failure::of(error),
        Error::ConnectionClosed | Error::AlreadyClosed => Failure::Closed,
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Failure::Cut,
        Error::Protocol(ProtocolError::HandshakeIncomplete) => Failure::Closed,
        _ => Failure::Protocol,
    }
}
