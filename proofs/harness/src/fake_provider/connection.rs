//! One connection of a client: requests in, replies out, and an eye on the client's end.

use std::{io, sync::Arc};

use anyhow::{Result, bail, ensure};
use tokio::{
    io::AsyncReadExt,
    net::{TcpStream, tcp::ReadHalf},
};

use super::{
    Outcome, Reply, Shared,
    answer::{After, send},
};
use crate::message::{Framing, Head};

const BODY_LIMIT: usize = 16 * 1024 * 1024;

struct Request {
    head: Head,
    body: String,
}

/// Serves requests until either side closes; what is not HTTP ends the connection and is no call.
pub(super) async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    // Small pieces must leave at once, or a drip would be gathered into one packet.
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    while let Ok(Some(request)) = next_request(&mut stream, &mut buffer).await {
        let reply = shared.reply_to(&request.head.first_line, &request.body);
        let headers = request.head.headers.into_iter().collect();
        let number = shared.begin(request.head.first_line, headers, request.body);
        match answer(&mut stream, &reply, |outcome| shared.end(number, outcome)).await {
            Ok(After::Sent) if leaves_open(&reply) => {}
            Ok(After::Sent) => return,
            Ok(After::Close) => return shared.end(number, Outcome::Cut),
            Ok(After::Reset) => {
                shared.end(number, Outcome::Cut);
                let _ = stream.set_zero_linger();
                return;
            }
            Err(_client_gone) => return shared.end(number, Outcome::ClientGone),
        }
    }
}

async fn answer(stream: &mut TcpStream, reply: &Reply, complete: impl FnOnce(Outcome)) -> io::Result<After> {
    let (reader, mut writer) = stream.split();
    tokio::select! {
        sent = send(&mut writer, reply, complete) => sent,
        () = client_gone(&reader) => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

/// Ends when the client closes. Bytes of a next request hide the close behind them, but no client of ours pipelines.
async fn client_gone(reader: &ReadHalf<'_>) {
    if let Ok(1..) = peek(reader).await {
        std::future::pending::<()>().await;
    }
}

async fn peek(reader: &ReadHalf<'_>) -> io::Result<usize> {
    let mut byte = [0];
    let mut buffer = tokio::io::ReadBuf::new(&mut byte);
    std::future::poll_fn(|context| reader.as_ref().poll_peek(context, &mut buffer)).await
}

async fn next_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<Request>> {
    loop {
        if let Some(head) = Head::of_request(buffer)? {
            let length = match head.framing()? {
                Framing::Length(length) => length,
                Framing::UntilClose => 0,
                Framing::Chunked => bail!("chunked requests are not known here"),
            };
            ensure!(length <= BODY_LIMIT, "the body is too long");
            while buffer.len() < head.len + length {
                ensure!(stream.read_buf(buffer).await? > 0, "the client left within its request");
            }
            let body = String::from_utf8_lossy(&buffer[head.len..head.len + length]).into_owned();
            buffer.drain(..head.len + length);
            return Ok(Some(Request { head, body }));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// A reply without a length ends with the connection, as does one that says so.
fn leaves_open(reply: &Reply) -> bool {
    match Head::of_response(&reply.bytes) {
        Ok(Some(head)) => head.keeps_alive() && matches!(head.framing(), Ok(Framing::Length(_) | Framing::Chunked)),
        Ok(None) | Err(_) => false,
    }
}
