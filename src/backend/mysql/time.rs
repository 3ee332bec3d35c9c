//! What the server's clock shows, as SQL.

/// What the server's clock shows as a statement begins, in microseconds since 1970: no time zone,
/// of whatever connection, has to do with it.
pub(super) const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// The beat of what is renewed now: above all before it, until the server is started again. Without
/// the server's own number, which stands in front.
pub(super) const BEAT: &str = "(UUID_SHORT() & 72057594037927935)";

/// The server whose clock it is, as the tables name it.
pub(super) const CLOCK: &str = "CONCAT(@@hostname, ':', @@port)";

/// How many milliseconds it takes, at least, until a session `s` is put away that is not renewed.
/// Or how long to wait if it is not yet, because what is believed of the clock is too young.
pub(super) const LEFT: &str = "IF(s.expires = 0, 0, GREATEST(LEAST(s.expires - \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), s.ttl) + s.ttl DIV 10, \
    s.ttl DIV 50) DIV 1000)";
