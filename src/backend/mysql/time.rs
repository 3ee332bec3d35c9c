//! The server's clock, as SQL.

/// The server's time at the start of a statement, in microseconds since 1970. It does not depend on
/// a connection's time zone.
pub(super) const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// The beat of a renewal now. It is above all earlier beats until the server is restarted. The
/// server's own number, which precedes it, is masked out.
pub(super) const BEAT: &str = "(UUID_SHORT() & 72057594037927935)";

/// The server of the clock, as its name in the tables.
pub(super) const CLOCK: &str = "CONCAT(@@hostname, ':', @@port)";

/// The milliseconds until a session `s` may be removed if it is not renewed. If it seems expired
/// but is still present, this is how long to wait, because the clock has been trusted for too short
/// a time.
pub(super) const LEFT: &str = "IF(s.expires = 0, 0, GREATEST(LEAST(s.expires - \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), s.ttl) + s.ttl DIV 10, \
    s.ttl DIV 50) DIV 1000)";
