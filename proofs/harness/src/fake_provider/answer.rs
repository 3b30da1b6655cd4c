//! Sends one reply, as spoilt as it is meant to be.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    time::sleep,
};

use super::{
    Outcome, Reply,
    reply::{Act, Place},
};
use crate::message::Head;

/// What is to be done with the connection after the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Sent,
    Close,
    Reset,
}

/// Sends `reply`; `complete` is called just before the last bytes, so that a client which has read all of the answer
/// finds the call completed in the log.
pub(super) async fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    reply: &Reply,
    complete: impl FnOnce(Outcome),
) -> io::Result<After> {
    sleep(reply.delay).await;
    if let Some(gate) = &reply.gate {
        gate.opened().await;
    }
    let mut rest: &[u8] = &reply.bytes;
    if let Some(stop) = &reply.stop {
        let (before, later) = rest.split_at(offset(reply, stop.at));
        write(writer, before, reply.drip).await?;
        match &stop.act {
            Act::Hang => std::future::pending().await,
            Act::Hold(gate) => gate.opened().await,
            Act::Close => return Ok(After::Close),
            Act::Reset => return Ok(After::Reset),
        }
        rest = later;
    }
    // With a drip all but the last piece; without one everything is the last piece.
    let last = reply.drip.map_or(0, |(piece, _every)| rest.len().saturating_sub(1) / piece * piece);
    let (before, last) = rest.split_at(last);
    write(writer, before, reply.drip).await?;
    complete(Outcome::Completed);
    write(writer, last, None).await?;
    Ok(After::Sent)
}

async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    drip: Option<(usize, Duration)>,
) -> io::Result<()> {
    let Some((piece, every)) = drip else { return writer.write_all(bytes).await };
    for piece in bytes.chunks(piece) {
        writer.write_all(piece).await?;
        sleep(every).await;
    }
    Ok(())
}

/// Bytes without a head, made by hand, are all body.
fn offset(reply: &Reply, place: Place) -> usize {
    match place {
        Place::BeforeHead => 0,
        Place::AfterBody(n) => {
            let head = Head::of_response(&reply.bytes).ok().flatten().map_or(0, |head| head.len);
            (head + n).min(reply.bytes.len())
        }
    }
}
