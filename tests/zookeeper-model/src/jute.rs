//! ZooKeeper's record format: big-endian numbers, and strings with a length prefix.

/// A record that is too short, or a missing string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Reads the values of a record in order.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        self.array().map(|[byte]: [u8; 1]| byte != 0)
    }

    /// Reads bytes, or `None` for `null`, which differs from an empty buffer.
    pub(crate) fn buffer(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        match self.int()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed)?;
                Ok(Some(self.take(length)?.to_vec()))
            }
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let bytes = self.buffer()?.ok_or(Malformed)?;
        String::from_utf8(bytes).map_err(|_| Malformed)
    }

    /// Reads a list with a length prefix.
    pub(crate) fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.int()?.max(0);
        (0..count).map(|_| each(self)).collect()
    }
}

/// Writes a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Starts a reply or an event with its header.
    pub(crate) fn reply(xid: i32, zxid: i64, error: i32) -> Self {
        let mut writer = Self::default();
        writer.int(xid).long(zxid).int(error);
        writer
    }

    pub(crate) fn int(&mut self, number: i32) -> &mut Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn long(&mut self, number: i64) -> &mut Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn flag(&mut self, flag: bool) -> &mut Self {
        self.0.push(u8::from(flag));
        self
    }

    pub(crate) fn count(&mut self, count: usize) -> &mut Self {
        self.int(i32::try_from(count).unwrap_or(i32::MAX))
    }

    pub(crate) fn buffer(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        match bytes {
            None => self.int(-1),
            Some(bytes) => {
                self.count(bytes.len());
                self.0.extend(bytes);
                self
            }
        }
    }

    /// Writes a string as Java does: each 16-bit unit of a surrogate pair is encoded separately.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        if text.chars().all(|c| c <= '\u{ffff}') {
            return self.buffer(Some(text.as_bytes()));
        }
        let mut bytes = Vec::new();
        for unit in text.encode_utf16() {
            let part = |shift: u16| 0x80 | (unit >> shift & 0x3f) as u8;
            match unit {
                0..0x80 => bytes.push(unit as u8),
                0x80..0x800 => bytes.extend([0xc0 | (unit >> 6) as u8, part(0)]),
                _ => bytes.extend([0xe0 | (unit >> 12) as u8, part(6), part(0)]),
            }
        }
        self.buffer(Some(&bytes))
    }

    pub(crate) fn texts<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a str>) -> &mut Self {
        self.count(texts.len());
        for text in texts {
            self.text(text);
        }
        self
    }

    pub(crate) fn append(&mut self, other: &Self) -> &mut Self {
        self.0.extend(&other.0);
        self
    }

    /// Returns the packet: the record with a length prefix.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        [&length.to_be_bytes(), &self.0[..]].concat()
    }
}
