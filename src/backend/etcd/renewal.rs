//! The request that renews a lease, and what its reply proves.
//!
//! etcd-client does not pass on the TTL of the first reply
//! (<https://github.com/etcdv3/etcd-client/blob/v0.21.1/src/rpc/lease.rs#L111>). A member always
//! replies with the whole TTL. `etcd grpc-proxy` does not. If its own renewals get no reply, it
//! replies with what is left of a lease that was not renewed. It also passes one late reply on to
//! every client that waits for one about the same lease
//! (<https://github.com/etcd-io/etcd/blob/v3.5.16/server/proxy/grpcproxy/lease.go#L257>).
//!
//! Its replies look like a member's. A keepalive for a lease that does not exist distinguishes the
//! two. A member replies with a TTL of 0, in the order of the requests on a stream
//! (<https://github.com/etcd-io/etcd/blob/v3.5.16/server/etcdserver/api/v3rpc/lease.go#L121>). The
//! proxy replies with the -1 of a `TimeToLive`. So if an endpoint owes an older reply, the next
//! keepalive to it is preceded by such a request.

use std::{sync::Arc, time::Duration};

use etcd_client::{Channel, Error};
use futures_util::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::oneshot;
use tonic::{
    Request, Status, Streaming,
    body::Body,
    client::Grpc,
    codegen::http::{HeaderValue, uri::PathAndQuery},
    metadata::AsciiMetadataValue,
    transport,
};
use tonic_prost::ProstCodec;
use tower::{ServiceExt, util::BoxCloneSyncService};

use crate::runtime::mutex::Mutex;

/// `LeaseKeepAliveRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct Renew {
    #[prost(int64, tag = "1")]
    id: i64,
}

/// `LeaseKeepAliveResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Renewed {
    #[prost(int64, tag = "2")]
    id: i64,
    /// In seconds. Zero or below: there is no such lease.
    #[prost(int64, tag = "3")]
    ttl: i64,
}

/// No lease has this id (`lease.NoLease`).
const NO_LEASE: i64 = 0;

/// The reply to a keepalive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// In seconds. Zero or below: there is no such lease.
    pub(super) ttl: i64,
    /// A member, not a proxy, has replied to this keepalive.
    by_member: bool,
}

impl Reply {
    /// Reads the first reply about a lease.
    async fn read(
        lease: i64,
        replies: &mut (impl Stream<Item = Result<Renewed, Status>> + Unpin),
    ) -> Result<Self, Status> {
        let mut by_member = false;
        while let Some(Renewed { id, ttl }) = replies.try_next().await? {
            if id == lease {
                return Ok(Self { ttl, by_member });
            }
            by_member = id == NO_LEASE && ttl == 0;
        }
        Err(Status::unavailable("no reply to the keepalive"))
    }
}

/// A connection, as keepalives use it.
#[derive(Debug)]
pub(super) struct Renewer {
    channel: transport::Channel,
    /// `None` without a user.
    token: Option<Token>,
}

impl Renewer {
    pub(super) fn new(channel: transport::Channel, authenticated: bool) -> Self {
        Self { channel, token: authenticated.then(Token::default) }
    }

    /// Returns the channel for etcd-client. It records the token of each request, which keepalives
    /// need.
    pub(super) fn channel(&self) -> Channel {
        let Some(token) = self.token.clone() else {
            return Channel::Tonic(self.channel.clone());
        };
        let noted = self.channel.clone().map_request(move |request: hyper::Request<Body>| {
            token.note(request.headers().get(TOKEN));
            request
        });
        Channel::Custom(BoxCloneSyncService::new(noted.map_err(Into::into)))
    }

    /// Returns `true` if etcd-client must send its token before this can renew.
    pub(super) fn lacks_token(&self) -> bool {
        self.token.as_ref().is_some_and(|token| token.0.lock().is_none())
    }

    /// Returns a client for requests that etcd-client does not offer in this form.
    pub(super) async fn client(&self) -> Result<Grpc<transport::Channel>, Status> {
        let mut client = Grpc::new(self.channel.clone());
        let ready = client.ready().await;
        ready.map_err(|error| Status::unknown(format!("the connection is not ready: {error}")))?;
        Ok(client)
    }

    /// Returns a request with the token.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        // A member without a leader rejects the request.
        request.metadata_mut().insert("hasleader", AsciiMetadataValue::from_static("true"));
        if let Some(token) = self.token.as_ref().and_then(|token| token.0.lock().clone()) {
            request.metadata_mut().insert(TOKEN, token);
        }
        request
    }

    /// Renews a lease on a new stream, and returns the reply. A keepalive `in_doubt` also finds out
    /// whether a member replies.
    pub(super) async fn renew(
        &self,
        lease: i64,
        in_doubt: bool,
    ) -> Result<(Reply, Replies), Error> {
        let mut client = self.client().await?;
        let (open, closed) = oneshot::channel::<()>();
        // The request stays open until the reply arrives: a proxy takes the end of the request for
        // the end of the reply.
        let rest = closed.into_stream().filter_map(async |_| None);
        let ids = in_doubt.then_some(NO_LEASE).into_iter().chain([lease]);
        let request = self.request(stream::iter(ids.map(|id| Renew { id })).chain(rest));
        let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
        let codec = ProstCodec::<Renew, Renewed>::default();
        let mut replies = client.streaming(request, path, codec).await?.into_inner();
        let reply = Reply::read(lease, &mut replies).await?;
        Ok((reply, Replies { open, replies }))
    }
}

/// The rest of a stream after the reply to a keepalive.
pub(super) struct Replies {
    open: oneshot::Sender<()>,
    replies: Streaming<Renewed>,
}

impl Replies {
    /// Ends the stream cleanly instead of by a reset.
    pub(super) async fn end(mut self) {
        drop(self.open);
        while let Ok(Some(_)) = self.replies.message().await {}
    }
}

/// The header that a token is sent in.
const TOKEN: &str = "token";

/// The authentication token of a connection's user.
#[derive(Clone, Debug, Default)]
struct Token(Arc<Mutex<Option<AsciiMetadataValue>>>);

impl Token {
    fn note(&self, sent: Option<&HeaderValue>) {
        let Some(sent) = sent else { return };
        if let Ok(token) = AsciiMetadataValue::try_from(sent.as_bytes()) {
            *self.0.lock() = Some(token);
        }
    }
}

/// The unanswered keepalives of a session, each with its endpoint and the time when it was sent.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Mutex<Vec<(usize, Duration)>>);

impl Unanswered {
    /// Records a keepalive that is sent to this endpoint at `now`.
    pub(super) fn send(&self, endpoint: usize, now: Duration) -> Sent {
        let mut unanswered = self.0.lock();
        let older = unanswered.iter().filter(|(to, _)| *to == endpoint).map(|(_, at)| *at);
        let oldest = older.fold(now, Duration::min);
        unanswered.push((endpoint, now));
        Sent { endpoint, at: now, oldest }
    }

    /// Returns how long after `sent` the session certainly lives, given the reply about a lease of
    /// `granted`.
    ///
    /// A proxy may credit its reply to an older keepalive to this one. So the reply counts from the
    /// oldest keepalive that the endpoint had not answered when this one was sent. A reply that is
    /// certainly a member's counts from this one. Replies come in the order of the renewals, so
    /// this one settles all older keepalives to the endpoint.
    pub(super) fn answered(&self, sent: Sent, granted: Duration, reply: Reply) -> Duration {
        self.0.lock().retain(|(to, at)| *to != sent.endpoint || *at > sent.at);
        let granted = granted.min(Duration::from_secs(reply.ttl.unsigned_abs()));
        let from = if reply.by_member { sent.at } else { sent.oldest };
        let older = sent.at.saturating_sub(from);
        // The caller subtracts a tenth of what is granted, and the time that has passed counts in
        // full.
        granted.saturating_sub(older + older / 9)
    }
}

/// A keepalive that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    endpoint: usize,
    at: Duration,
    /// When the oldest keepalive was sent that the endpoint had not answered by then.
    oldest: Duration,
}

impl Sent {
    /// Returns `true` if the endpoint owes the reply to an older keepalive.
    pub(super) fn in_doubt(self) -> bool {
        self.oldest < self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::timing::Timing;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns a reply that may be a proxy's.
    fn unproved(ttl: i64) -> Reply {
        Reply { ttl, by_member: false }
    }

    #[tokio::test]
    async fn only_member_replies_confirm_a_renewal() {
        type Row<'a> = (&'a [(i64, i64)], Option<(i64, bool)>);
        let rows: [Row<'_>; 8] = [
            // No request precedes the keepalive.
            (&[(7, 15)], Some((15, false))),
            // A member replies in order, and with 0 for a lease that does not exist.
            (&[(NO_LEASE, 0), (7, 15)], Some((15, true))),
            (&[(NO_LEASE, 0), (7, 0)], Some((0, true))),
            // A proxy requests the TTL of a lease that does not exist, and replies in no order.
            (&[(NO_LEASE, -1), (7, 15)], Some((15, false))),
            (&[(7, 15), (NO_LEASE, 0)], Some((15, false))),
            // Replies about other leases prove nothing.
            (&[(8, 0), (7, 15)], Some((15, false))),
            (&[(NO_LEASE, 0)], None),
            (&[], None),
        ];
        for (replies, read) in rows {
            let renewed = replies.iter().map(|(id, ttl)| Ok(Renewed { id: *id, ttl: *ttl }));
            let reply = Reply::read(7, &mut stream::iter(renewed)).await.ok();
            let expected = read.map(|(ttl, by_member)| Reply { ttl, by_member });
            assert_eq!(reply, expected, "{replies:?}");
        }
    }

    /// Returns the shortest time to the deadline within a minute, in ms. The keeper renews by
    /// `Timing`, to endpoints that reply after these round trips in turn. `worth` is what a reply
    /// counts for.
    fn least_left(
        endpoints: usize,
        round_trips: &[u64],
        worth: impl Fn(&Unanswered, Sent) -> Duration,
    ) -> u64 {
        const OVERLAPPING: usize = 6;
        let ms = Duration::from_millis;
        let timing = Timing { ttl: TTL, relayed: false };
        let (unanswered, mut under_way) = (Unanswered::default(), Vec::new());
        let mut round_trips = round_trips.iter().cycle();
        let (mut attempted, mut proved) = (Duration::ZERO, Duration::ZERO);
        let (mut granted, mut deadline) = (TTL, Timing::certain(TTL));
        let mut least = deadline;
        for now in (0..60_000).map(ms) {
            under_way.retain(|(replied, sent): &(Duration, Sent)| {
                if *replied == now {
                    let kept = worth(&unanswered, *sent);
                    if sent.at >= proved {
                        (proved, granted) = (sent.at, kept);
                    }
                    deadline = deadline.max(sent.at + Timing::certain(kept));
                }
                *replied > now
            });
            let due = if under_way.is_empty() {
                attempted.max(proved) + timing.renewal_after(granted)
            } else {
                attempted + timing.second_server()
            };
            if due <= now && under_way.len() < OVERLAPPING {
                let sent = unanswered.send(under_way.len() % endpoints, now);
                under_way.push((now + ms(*round_trips.next().unwrap()), sent));
                attempted = now;
            }
            least = least.min(deadline.saturating_sub(now));
        }
        u64::try_from(least.as_millis()).unwrap()
    }

    const TTL: Duration = Duration::from_secs(4);

    #[test]
    fn slow_members_cost_no_slack() {
        let rows: [(usize, &[u64]); 10] = [
            (1, &[100]),
            (1, &[1000]),
            (1, &[1200]),
            (3, &[1200]),
            // As in `network::a_slow_network_loses_nothing`.
            (3, &[600, 1800, 1200]),
            (3, &[1800, 600, 700, 1700, 1200]),
            (2, &[1800, 1800, 600]),
            (1, &[1800, 600, 1200, 1700]),
            // A new connection takes another round trip.
            (1, &[1800, 2600, 600]),
            (3, &[1800, 600, 2600, 700, 3000]),
        ];
        let mut lost = 0;
        for (endpoints, round_trips) in rows {
            let left = |worth: fn(&Unanswered, Sent) -> Duration| {
                least_left(endpoints, round_trips, worth)
            };
            let own = left(|_, _| TTL);
            let proxy = left(|unanswered, sent| unanswered.answered(sent, TTL, unproved(4)));
            let member = left(|unanswered, sent| {
                unanswered.answered(sent, TTL, Reply { ttl: 4, by_member: sent.in_doubt() })
            });
            println!("{endpoints} endpoints, {round_trips:?}: {own} ms, {member} of a member's");
            println!("    and {proxy} of a proxy's");
            assert_eq!(member, own, "{endpoints} endpoints, {round_trips:?}");
            assert!(proxy <= own, "{endpoints} endpoints, {round_trips:?}");
            lost = lost.max(own - proxy);
        }
        assert!(lost > 100, "the schedules do not overlap: {lost} ms");
    }

    /// The TTL is 15 s. Each row lists to which endpoint keepalives are sent, and when. Then it
    /// lists which of them are answered, in this order, with which TTL, and until when the session
    /// is kept.
    #[test]
    fn reply_counts_for_remaining_ttl_on_server() {
        type Row<'a> = (&'a [(usize, u64)], &'a [(usize, i64, u64)]);
        let rows: [Row<'_>; 8] = [
            // A member replies with the whole TTL, or with a longer one than was granted.
            (&[(0, 5)], &[(0, 15, 20)]),
            (&[(0, 5)], &[(0, 60, 20)]),
            // A proxy replies with the remaining time.
            (&[(0, 5)], &[(0, 3, 8)]),
            // The reply to a keepalive may belong to an older one, which is unanswered.
            (&[(0, 5), (0, 8)], &[(1, 15, 20)]),
            (&[(0, 5), (0, 8)], &[(0, 15, 20), (1, 15, 20)]),
            // The older keepalive went to another endpoint.
            (&[(0, 5), (1, 8)], &[(1, 15, 23), (0, 15, 20)]),
            // The reply settles keepalives that were sent before it.
            (&[(0, 5), (0, 8), (0, 10)], &[(1, 15, 20), (0, 15, 20), (2, 15, 20)]),
            // The oldest one counts, however many were sent since.
            (&[(0, 5), (0, 6), (1, 7), (0, 8)], &[(3, 15, 20)]),
        ];
        for (sent, replies) in rows {
            let unanswered = Unanswered::default();
            let keepalives: Vec<_> = sent
                .iter()
                .map(|(endpoint, at)| unanswered.send(*endpoint, seconds(*at)))
                .collect();
            for (index, ttl, until) in replies {
                let kept = unanswered.answered(keepalives[*index], seconds(15), unproved(*ttl));
                let kept_until = seconds(sent[*index].1) + kept;
                let slack = seconds(*until).checked_sub(kept_until);
                // The subtracted tenth also counts from the older one.
                assert!(slack.is_some_and(|slack| slack < seconds(1)), "{sent:?}: {kept_until:?}");
            }
        }
    }

    #[test]
    fn keepalive_after_an_answered_one_counts_in_full() {
        let unanswered = Unanswered::default();
        let (lost, answered) = (unanswered.send(0, seconds(1)), unanswered.send(0, seconds(3)));
        unanswered.answered(answered, seconds(15), unproved(15));
        let next = unanswered.send(0, seconds(8));
        assert!(!next.in_doubt());
        assert_eq!(unanswered.answered(next, seconds(15), unproved(15)), seconds(15));
        // The server's TTL counts, whatever else is known.
        assert_eq!(unanswered.answered(lost, seconds(15), unproved(0)), Duration::ZERO);
    }
}
