//! Where an HTTP/1.1 message begins and ends: enough to record one and to serve one, and nothing more.

use anyhow::{Context, Result, ensure};

/// More headers than any server here sends.
const MAX_HEADERS: usize = 96;

/// The parsed head of a request or a response.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Bytes up to and including the empty line.
    pub(crate) len: usize,
    /// `POST /v1/chat/completions` or `200`.
    pub(crate) first_line: String,
    /// In the order sent, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

impl Head {
    /// The head of a request, or `None` while it is incomplete.
    pub(crate) fn of_request(bytes: &[u8]) -> Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(len) = request.parse(bytes)? else { return Ok(None) };
        let first_line = format!("{} {}", request.method.unwrap_or_default(), request.path.unwrap_or_default());
        Ok(Some(Self { len, first_line, headers: owned(request.headers) }))
    }

    /// The head of a response, or `None` while it is incomplete.
    pub(crate) fn of_response(bytes: &[u8]) -> Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(len) = response.parse(bytes)? else { return Ok(None) };
        let first_line = response.code.unwrap_or_default().to_string();
        Ok(Some(Self { len, first_line, headers: owned(response.headers) }))
    }

    /// The first header of that name, which is given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|(known, value)| (known == name).then_some(value.as_str()))
    }

    /// A message that names no length has none as a request, and lasts until the connection closes as a response.
    pub(crate) fn framing(&self) -> Result<Framing> {
        if self.header("transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("chunked")) {
            return Ok(Framing::Chunked);
        }
        match self.header("content-length") {
            Some(length) => Ok(Framing::Length(length.parse().context("content-length is not a number")?)),
            None => Ok(Framing::UntilClose),
        }
    }

    /// Whether the connection may carry another message afterwards.
    pub(crate) fn keeps_alive(&self) -> bool {
        !self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// The length of the whole response, or `None` when more bytes are needed (or only the close tells).
pub(crate) fn response_len(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(head) = Head::of_response(bytes)? else { return Ok(None) };
    let body = &bytes[head.len..];
    let body_len = match head.framing()? {
        Framing::Length(length) => (body.len() >= length).then_some(length),
        Framing::Chunked => chunked_len(body)?,
        Framing::UntilClose => None,
    };
    Ok(body_len.map(|length| head.len + length))
}

fn chunked_len(body: &[u8]) -> Result<Option<usize>> {
    let mut at = 0;
    loop {
        let parsed = httparse::parse_chunk_size(&body[at..]).ok().context("not a chunk size")?;
        let httparse::Status::Complete((size_line, size)) = parsed else { return Ok(None) };
        let end = at + size_line + usize::try_from(size)? + 2;
        if end > body.len() {
            return Ok(None);
        }
        ensure!(&body[end - 2..end] == b"\r\n", "a chunk does not end with an empty line; trailers are not known here");
        if size == 0 {
            return Ok(Some(end));
        }
        at = end;
    }
}

fn owned(headers: &[httparse::Header<'_>]) -> Vec<(String, String)> {
    let text = |header: &httparse::Header<'_>| {
        (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned())
    };
    headers.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_chunked_response_is_its_last_chunk() {
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(response_len(&whole[..cut]).unwrap(), None, "cut at {cut}");
        }
        assert_eq!(response_len(whole).unwrap(), Some(whole.len()));
    }

    #[test]
    fn end_of_a_plain_response_is_its_content_length() {
        let more = b"HTTP/1.1 429 Slow\r\ncontent-length: 2\r\n\r\nno and more";
        assert_eq!(response_len(more).unwrap(), Some(more.len() - " and more".len()));
    }

    #[test]
    fn response_without_a_length_lasts_until_the_close() {
        assert_eq!(response_len(b"HTTP/1.1 200 OK\r\n\r\nabc").unwrap(), None);
    }
}
