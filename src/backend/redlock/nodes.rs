//! All nodes, as one session queries them.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::{
    node::{Answered, Asking, Node},
    node_clock::{is_common, middle},
    node_state::Spoiled,
    round::{Round, Vote},
    script::{Call, Reply},
    strays::Strays,
    token,
};
use crate::runtime::clock::{self, Instant};

/// The longest wait for any node.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// The nodes of a session.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    all: Arc<[Asking]>,
    /// The values that each node still has to free.
    strays: Arc<[Arc<Strays>]>,
    ttl: Duration,
}

/// The reply of one node.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) node: usize,
    pub(super) reply: Option<Reply>,
    /// The request was sent, or may have been.
    pub(super) sent: bool,
    /// The node's error, if it denies the request to this user.
    denied: Option<Arc<str>>,
    /// The reason why the reply does not count.
    pub(super) spoiled: Option<Spoiled>,
}

impl Said {
    /// Returns the node's vote. `yes` reads it from the reply.
    pub(super) fn vote(&self, yes: impl FnOnce(&Reply) -> bool) -> Vote {
        self.vote_by(self.spoiled, yes)
    }

    /// Returns the node's vote, with the current reason why it does not count.
    fn vote_by(&self, spoiled: Option<Spoiled>, yes: impl FnOnce(&Reply) -> bool) -> Vote {
        match (&self.reply, spoiled) {
            (None, _) => self.denied.clone().map_or(Vote::Silent, Vote::Denied),
            (Some(_), Some(_)) => Vote::Spoiled,
            (Some(reply), None) if yes(reply) => Vote::Yes,
            (Some(_), None) => Vote::No,
        }
    }
}

/// A node, and the result of a request to it.
type Coming = Pin<Box<dyn Future<Output = (usize, Answered)> + Send>>;

/// The replies as they arrive. All requests have been sent, so none waits for another.
pub(super) struct Answers {
    coming: FuturesUnordered<Coming>,
    nodes: Nodes,
}

impl Answers {
    /// Returns the next reply, or `None` if there are no more.
    pub(super) async fn next(&mut self) -> Option<Said> {
        let (node, Answered { reply, sent, denied }) = self.coming.next().await?;
        let spoiled = self.nodes.spoiled(node);
        Some(Said { node, reply, sent, denied, spoiled })
    }
}

impl Nodes {
    pub(super) fn new(all: impl IntoIterator<Item = Asking>, ttl: Duration) -> Self {
        let all: Arc<[_]> = all.into_iter().collect();
        let strays = all.iter().map(|_| Arc::default()).collect();
        Self { all, strays, ttl }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns how long one node may take, which is far less than the TTL.
    pub(super) fn limit(&self) -> Duration {
        (self.ttl / 10).min(LONGEST_WAIT)
    }

    /// Queries some nodes at once.
    pub(super) fn ask(
        &self,
        nodes: impl IntoIterator<Item = usize>,
        call: impl Fn(usize) -> Call,
    ) -> Answers {
        self.ask_within(self.limit(), nodes, call)
    }

    /// Asks all nodes at once to renew locks. A renewal counts from when it was sent, so a longer
    /// wait is safe. A node takes longer for a thousand locks than for one, and a repetition before
    /// it is done would only delay it.
    pub(super) fn renew(&self, call: impl Fn(usize) -> Call) -> Answers {
        self.ask_within(self.ttl / 4, 0..self.len(), call)
    }

    fn ask_within(
        &self,
        limit: Duration,
        nodes: impl IntoIterator<Item = usize>,
        call: impl Fn(usize) -> Call,
    ) -> Answers {
        let until = Instant::now() + limit;
        let coming = nodes.into_iter().filter_map(|node| {
            let asking = self.all.get(node)?.ask(call(node), until);
            let coming: Coming = Box::pin(async move { (node, asking.await) });
            Some(coming)
        });
        Answers { coming: coming.collect(), nodes: self.clone() }
    }

    /// Queries all nodes at once.
    pub(super) fn ask_all(&self, call: &Call) -> Answers {
        self.ask(0..self.len(), |_| call.clone())
    }

    fn node(&self, node: usize) -> Option<&Arc<Node>> {
        self.all.get(node).map(|asking| &asking.node)
    }

    /// Returns the values that a node still has to free.
    pub(super) fn strays(&self, node: usize) -> Option<&Arc<Strays>> {
        self.strays.get(node)
    }

    /// Returns the longest TTL of any client, as far as the nodes have reported.
    pub(super) fn longest(&self) -> Duration {
        let longest = self.all.iter().map(|asking| asking.node.state.lock().longest).max();
        longest.unwrap_or_default().max(self.ttl)
    }

    /// Returns `true` if a node listed before this one is the same server. Its name may have begun
    /// to lead there since the client connected.
    fn is_repeated(&self, node: usize) -> bool {
        let run = |node: &Arc<Node>| Arc::clone(&node.state.lock().run);
        let own = self.node(node).map(run).filter(|run| !run.is_empty());
        own.is_some_and(|own| self.all.iter().take(node).any(|other| run(&other.node) == own))
    }

    /// Returns why the replies of a node do not count now.
    pub(super) fn spoiled(&self, node: usize) -> Option<Spoiled> {
        if self.is_repeated(node) {
            return Some(Spoiled::Repeated);
        }
        let longest = self.longest();
        let all = self.ahead();
        let state = self.node(node)?.state.lock();
        let ttl = longest.min(self.ttl);
        let is_other =
            state.clock.ahead().is_some_and(|ahead| !is_common(ahead, &all, self.len(), ttl));
        state.spoiled(clock::now(), longest, is_other)
    }

    /// Returns by how many microseconds each known clock is ahead of ours.
    fn ahead(&self) -> Vec<i128> {
        let ahead = |asking: &Asking| asking.node.state.lock().clock.ahead();
        self.all.iter().filter_map(ahead).collect()
    }

    /// Returns the time of the median clock in microseconds.
    pub(super) fn time(&self) -> u64 {
        let now = i128::try_from(clock::now().as_micros()).unwrap_or(i128::MAX);
        let shows = middle(self.ahead()).map(|ahead| now.saturating_add(ahead));
        shows.and_then(|shows| u64::try_from(shows).ok()).unwrap_or(0)
    }

    /// Returns a token to propose before any counter is read, or 0 for none.
    pub(super) fn proposal(&self) -> u64 {
        let (known, ttl) = (self.ahead(), self.longest().min(self.ttl));
        let is_known =
            middle(known.clone()).is_some_and(|middle| is_common(middle, &known, self.len(), ttl));
        token::propose_unread(is_known, self.time())
    }

    /// Returns `true` if that token is still near the median clock.
    pub(super) fn is_timely(&self, token: u64) -> bool {
        token::is_timely(token, self.time(), self.limit())
    }

    /// Counts these votes by what is known of all clocks now. A later reply may decide whether an
    /// earlier one counts.
    pub(super) fn round(&self, all: &[Said], yes: impl Fn(&Reply) -> bool) -> Round {
        let mut round = Round::new(self.len());
        for said in all {
            round.count(said.vote_by(self.spoiled(said.node), &yes));
        }
        round
    }

    /// Returns the first node that is reachable and counts.
    pub(super) fn first(&self) -> Option<usize> {
        let answers = |node: &usize| {
            let trouble = self.node(*node).is_some_and(|node| node.state.lock().trouble.is_some());
            !trouble && self.spoiled(*node).is_none()
        };
        (0..self.len()).find(answers)
    }

    /// Returns the problems of all nodes as text.
    pub(super) fn troubles(&self) -> Vec<String> {
        let troubles = self.all.iter().enumerate().filter_map(|(number, asking)| {
            let endpoint = &asking.node.endpoint;
            let spoiled = self.spoiled(number);
            let state = asking.node.state.lock();
            match (&state.trouble, spoiled) {
                (Some(trouble), _) => Some(trouble.clone()),
                (None, Some(Spoiled::Restarted)) => Some(format!(
                    "{endpoint} may have been started less than `longest_ttl` ago, so it does not \
                     count yet"
                )),
                (None, Some(Spoiled::ClockSet)) => Some(format!(
                    "the clock of {endpoint} was changed less than `longest_ttl` ago, or does not \
                     agree with a majority of the nodes' clocks, so the node does not count yet"
                )),
                (None, Some(Spoiled::Repeated)) => Some(format!(
                    "{endpoint} is the same server as another node, so it does not count: list \
                     each server once, or correct the nodes' names (DNS) and restart this client"
                )),
                (None, None) => None,
            }
        });
        troubles.collect()
    }
}
