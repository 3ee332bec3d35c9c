//! The messages of PostgreSQL's protocol
//! (<https://www.postgresql.org/docs/17/protocol-message-formats.html>).

/// Splits what a client sends into messages.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    read: Vec<u8>,
}

/// A message with a type, as sent by either side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) body: &'a [u8],
    /// The message with its head.
    pub(crate) whole: &'a [u8],
}

impl Frames {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.read.extend_from_slice(bytes);
    }

    /// Takes the body of a message without a type, which begins a connection.
    pub(crate) fn next_untyped(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(number(&self.read)?).ok()?;
        let whole: Vec<_> = self.take(length)?;
        whole.get(4..).map(<[u8]>::to_vec)
    }

    /// Takes the next message.
    pub(crate) fn next_typed(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(number(self.read.get(1..)?)?).ok()?;
        self.take(length + 1)
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        (self.read.len() >= length).then(|| self.read.drain(..length).collect())
    }
}

/// Iterates over whole messages.
pub(crate) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(number(bytes.get(1..)?)?).ok()? + 1;
        let (whole, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        Some(Frame { kind: whole[0], body: &whole[5..], whole })
    })
}

fn number(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// Returns the number at the start of a message without a type.
pub(crate) fn code(body: &[u8]) -> i32 {
    number(body).unwrap_or_default()
}

/// Writes a message.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or_default();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

/// Writes texts that end with a zero each.
pub(crate) fn texts(texts: &[&str]) -> Vec<u8> {
    texts.iter().flat_map(|text| text.bytes().chain([0])).collect()
}

/// Reads texts that end with a zero each.
pub(crate) fn read_texts(bytes: &[u8]) -> impl Iterator<Item = String> {
    let texts = bytes.split(|byte| *byte == 0);
    texts.map(|text| String::from_utf8_lossy(text).into_owned())
}

/// Writes an error, and that the server is ready after it unless `fatal`.
pub(crate) fn error(code: &str, text: &str, fatal: bool) -> Vec<u8> {
    let severity = if fatal { "FATAL" } else { "ERROR" };
    let fields = [("S", severity), ("V", severity), ("C", code), ("M", text)];
    let mut body: Vec<u8> = Vec::new();
    for (field, value) in fields {
        body.extend(texts(&[&format!("{field}{value}")]));
    }
    body.push(0);
    let mut bytes = message(b'E', &body);
    if !fatal {
        bytes.extend(message(b'Z', b"I"));
    }
    bytes
}

/// Writes a request of the simple protocol.
pub(crate) fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &texts(&[sql]))
}
