use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::Duration,
};

use anyhow::Result;
use sa_harness::{FakeProvider, Gate, Outcome, Reply, Rule};

const LIMIT: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_millis(200);

/// A client that shows raw bytes, which no HTTP library does.
struct Client(TcpStream);

impl Client {
    fn of(provider: &FakeProvider) -> Result<Self> {
        let stream = TcpStream::connect(provider.address())?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self(stream))
    }

    fn ask(&mut self, body: &str) -> Result<()> {
        let length = body.len();
        let head =
            format!("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Trace: 7\r\nContent-Length: {length}\r\n\r\n");
        self.0.write_all(head.as_bytes())?;
        Ok(self.0.write_all(body.as_bytes())?)
    }

    /// Reads as many bytes as the recording has, which must be the recording.
    fn hears(&mut self, recording: &str) -> Result<()> {
        let expected = recorded(recording)?;
        let mut heard = vec![0; expected.len()];
        self.0.read_exact(&mut heard)?;
        assert_eq!(String::from_utf8_lossy(&heard), String::from_utf8_lossy(&expected));
        Ok(())
    }

    fn hears_nothing_soon(&mut self) -> Result<()> {
        self.0.set_read_timeout(Some(SOON))?;
        let kind = self.0.read(&mut [0]).expect_err("something was said").kind();
        assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{kind:?}");
        Ok(self.0.set_read_timeout(Some(LIMIT))?)
    }
}

fn recorded(name: &str) -> Result<Vec<u8>> {
    Ok(std::fs::read(sa_harness::repository_root().join(format!("proofs/wire/{name}.http")))?)
}

fn head_len(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4
}

#[tokio::test]
async fn recorded_bytes_are_replayed_on_one_connection_and_logged() -> Result<()> {
    let provider = FakeProvider::start().await?;
    provider.script(Rule::when("weather").first(1).reply(Reply::wire("aimock-429-rate-limit")));
    let mut client = Client::of(&provider)?;

    client.ask(r#"{"stream":true,"text":"weather"}"#)?;
    client.hears("aimock-429-rate-limit")?;
    client.ask(r#"{"stream":true,"text":"weather"}"#)?;
    client.hears("llama-chat-stream")?;
    client.ask(r#"{"text":"naïve"}"#)?;
    client.hears("llama-chat")?;

    let calls = provider.calls();
    assert_eq!(calls.iter().map(|call| call.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(calls.iter().all(|call| call.outcome == Outcome::Completed && call.ended >= Some(call.started)));
    assert_eq!(calls[0].request, "POST /v1/chat/completions");
    assert_eq!(calls[0].headers["x-trace"], "7");
    assert_eq!(calls[2].body, r#"{"text":"naïve"}"#);
    assert_eq!(provider.calls_with("weather").len(), 2);
    Ok(())
}

#[tokio::test]
async fn client_that_leaves_while_we_hang_is_noticed() -> Result<()> {
    let provider = FakeProvider::start().await?;
    provider.script(Rule::when("one").reply(Reply::wire("llama-chat").hang_before_headers()));
    provider.script(Rule::when("two").reply(Reply::wire("llama-chat-stream").hang_after_bytes(10)));
    let (mut one, mut two) = (Client::of(&provider)?, Client::of(&provider)?);

    one.ask("one")?;
    provider.wait_for_calls(1, LIMIT).await?;
    two.ask("two")?;
    let calls = provider.wait_for_calls(2, LIMIT).await?;
    assert!(calls.iter().all(|call| call.outcome == Outcome::Running && call.ended.is_none()));
    one.hears_nothing_soon()?;
    let stream = recorded("llama-chat-stream")?;
    two.0.read_exact(&mut vec![0; head_len(&stream) + 10])?;
    two.hears_nothing_soon()?;

    drop(one);
    provider.wait_for_client_gone(1, LIMIT).await?;
    assert_eq!(provider.calls()[1].outcome, Outcome::Running, "the other call is not concerned");
    drop(two);
    provider.wait_for_client_gone(2, LIMIT).await
}

#[tokio::test]
async fn gate_holds_an_answer_until_it_is_opened() -> Result<()> {
    let provider = FakeProvider::start().await?;
    let (gate, middle) = (Gate::closed(), Gate::closed());
    provider.script(Rule::when("start").reply(Reply::wire("llama-chat").until(&gate)));
    provider.script(Rule::when("middle").reply(Reply::wire("llama-chat").until_after_bytes(0, &middle)));
    let (mut one, mut two) = (Client::of(&provider)?, Client::of(&provider)?);

    one.ask("start")?;
    two.ask("middle")?;
    one.hears_nothing_soon()?;
    gate.open();
    one.hears("llama-chat")?;
    middle.open();
    two.hears("llama-chat")?;
    Ok(())
}

#[tokio::test]
async fn connection_is_cut_in_order_or_reset() -> Result<()> {
    let provider = FakeProvider::start().await?;
    provider.script(Rule::when("cut").reply(Reply::wire("llama-chat-stream").cut_after_bytes(20)));
    provider.script(Rule::when("reset").reply(Reply::wire("llama-chat-stream").reset_after_bytes(0)));
    provider.script(Rule::when("silent").reply(Reply::wire("llama-chat-stream").cut_before_headers()));
    let stream = recorded("llama-chat-stream")?;

    for (body, expected) in [("cut", &stream[..head_len(&stream) + 20]), ("silent", &[])] {
        let mut client = Client::of(&provider)?;
        client.ask(body)?;
        let mut heard = Vec::new();
        client.0.read_to_end(&mut heard)?;
        assert_eq!(heard, expected, "{body}");
    }
    let mut client = Client::of(&provider)?;
    client.ask("reset")?;
    let error = client.0.read_to_end(&mut Vec::new()).expect_err("a reset is an error");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(provider.calls().iter().all(|call| call.outcome == Outcome::Cut));
    Ok(())
}

#[tokio::test]
async fn dripped_and_hand_made_answers_arrive_whole() -> Result<()> {
    let provider = FakeProvider::start().await?;
    provider.script(Rule::when("drip").reply(Reply::wire("aimock-503").drip(7, Duration::from_millis(1))));
    provider.script(Rule::when("crab").reply(Reply::by_hand("500 Broken", &[("retry-after", "soon")], "🦀")));
    let mut client = Client::of(&provider)?;

    client.ask("drip")?;
    client.hears("aimock-503")?;
    client.ask("crab")?;
    let expected = "HTTP/1.1 500 Broken\r\nretry-after: soon\r\ncontent-length: 4\r\n\r\n🦀";
    let mut heard = vec![0; expected.len()];
    client.0.read_exact(&mut heard)?;
    assert_eq!(String::from_utf8(heard)?, expected);
    assert!(provider.calls().iter().all(|call| call.outcome == Outcome::Completed));
    Ok(())
}

#[tokio::test]
async fn every_recording_is_one_whole_answer() -> Result<()> {
    let provider = FakeProvider::start().await?;
    let folder = sa_harness::repository_root().join("proofs/wire");
    let names = std::fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let names: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(".http")?.to_owned())).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        provider.script(Rule::when(&format!("[{name}]")).reply(Reply::wire(&name)));
        let mut client = Client::of(&provider)?;
        client.ask(&format!("[{name}]"))?;
        client.hears(&name)?;
    }
    Ok(())
}
