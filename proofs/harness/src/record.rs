//! Records what a real server answers, byte for byte.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::message::response_len;

/// A small model on a busy machine needs its time for the first token.
const READ_LIMIT: Duration = Duration::from_secs(120);

/// Sends `body` to `path` on `upstream` (`GET` when there is none) and writes the raw response, head and framing included, to `out`.
///
/// # Errors
/// When the upstream closes or falls silent before its answer is whole: half an answer is never written.
pub fn record(upstream: &str, path: &str, headers: &[String], body: Option<&[u8]>, out: &Path) -> Result<()> {
    let mut stream = TcpStream::connect(upstream).with_context(|| format!("{upstream} does not answer"))?;
    stream.set_read_timeout(Some(READ_LIMIT))?;
    // A fixed Host, so that no recording depends on the port it was made on.
    let method = if body.is_some() { "POST" } else { "GET" };
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
    for header in headers {
        head += &format!("{header}\r\n");
    }
    let body = body.unwrap_or_default();
    head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;

    let mut answer = Vec::new();
    let mut piece = [0; 16 * 1024];
    while response_len(&answer)? != Some(answer.len()) {
        let read = stream.read(&mut piece).context("the answer did not come to its end")?;
        ensure!(read > 0, "the connection was closed within the answer");
        answer.extend_from_slice(&piece[..read]);
    }
    fs::write(out, answer).with_context(|| format!("cannot write {}", out.display()))
}
