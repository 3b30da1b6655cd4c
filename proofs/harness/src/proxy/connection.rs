//! Both directions of one connection, and the search for a `COMMIT`.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    time::sleep,
};

use super::{CommitFault, Held, Shared};

/// Three bytes of length, one of sequence.
const PACKET_HEADER: usize = 4;
const COM_QUERY: u8 = 0x03;
/// The payload of a request for TLS, which a client sends in place of its whole login.
const TLS_REQUEST_LEN: usize = 32;

/// Forwards until either side closes or a fault ends it; dropping the sockets is the cut.
pub(super) async fn run(mut client: TcpStream, mut server: TcpStream, shared: &Shared) {
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let swallow_answer = AtomicBool::new(false);
    // Both ends of a connection end together, and an error on either is the same to us as a close.
    let _ = tokio::select! {
        ended = client_to_server(from_client, to_server, shared, &swallow_answer) => ended,
        ended = server_to_client(from_server, to_client, shared, &swallow_answer) => ended,
    };
}

async fn client_to_server(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    shared: &Shared,
    swallow_answer: &AtomicBool,
) -> io::Result<()> {
    loop {
        let packet = next_packet(&mut from).await?;
        pass(shared, &[Held::Both]).await;
        if is_commit(&packet)
            && let Some(fault) = shared.commit().take()
        {
            shared.commits_cut.fetch_add(1, Ordering::SeqCst);
            match fault {
                CommitFault::Before => return Ok(()),
                // The protocol is strictly one question, one answer: the next bytes of the server are this answer.
                CommitFault::Acknowledgement => swallow_answer.store(true, Ordering::SeqCst),
            }
        }
        to.write_all(&packet).await?;
        if asks_for_tls(&packet) {
            return copy_blindly(from, to, shared).await;
        }
    }
}

async fn server_to_client(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    shared: &Shared,
    swallow_answer: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 || swallow_answer.load(Ordering::SeqCst) {
            return Ok(());
        }
        pass(shared, &[Held::Both, Held::FromServer]).await;
        to.write_all(&buffer[..read]).await?;
    }
}

/// Behind TLS there are no packets to be seen; all other faults still work.
async fn copy_blindly(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, shared: &Shared) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        pass(shared, &[Held::Both]).await;
        to.write_all(&buffer[..read]).await?;
    }
}

/// Waits for the latency, and for as long as one of `holds` is in force.
async fn pass(shared: &Shared, holds: &[Held]) {
    let mut faults = shared.faults.subscribe();
    let latency = faults.borrow().latency;
    sleep(latency).await;
    // The sender lives in `shared`, so this cannot fail.
    let _ = faults.wait_for(|faults| !holds.contains(&faults.held)).await;
}

async fn next_packet(from: &mut ReadHalf<'_>) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; PACKET_HEADER];
    from.read_exact(&mut packet).await?;
    let length = usize::from(packet[0]) | usize::from(packet[1]) << 8 | usize::from(packet[2]) << 16;
    packet.resize(PACKET_HEADER + length, 0);
    from.read_exact(&mut packet[PACKET_HEADER..]).await?;
    Ok(packet)
}

/// The statement itself, as `READ COMMITTED` holds the word as well.
fn is_commit(packet: &[u8]) -> bool {
    let text = packet.get(PACKET_HEADER + 1..).unwrap_or_default();
    packet.get(PACKET_HEADER) == Some(&COM_QUERY) && text.trim_ascii().eq_ignore_ascii_case(b"COMMIT")
}

fn asks_for_tls(packet: &[u8]) -> bool {
    packet.len() == PACKET_HEADER + TLS_REQUEST_LEN && packet[3] == 1
}
