//! Checks that nothing the library prints contains a secret.

use std::{error::Error, fmt::Debug};

use distlock::{Builder, Client};

use super::{SOON, within};

/// The debug and display texts of types and errors, and the telemetry that was emitted while they
/// were created.
pub(crate) struct Shown {
    texts: Vec<(String, String)>,
    telemetry: Option<telemetry::Telemetry>,
}

impl Default for Shown {
    fn default() -> Self {
        Self { texts: Vec::new(), telemetry: Some(telemetry::Telemetry::listen()) }
    }
}

/// Collects what is emitted through the crates `metrics` and `tracing`.
#[cfg(not(all(feature = "metrics", feature = "tracing")))]
mod telemetry {
    pub(super) struct Telemetry;

    impl Telemetry {
        pub(super) fn listen() -> Self {
            Self
        }

        pub(super) fn all(&self) -> Vec<(String, String)> {
            Vec::new()
        }
    }
}

#[cfg(all(feature = "metrics", feature = "tracing"))]
mod telemetry {
    use std::sync::{Arc, Mutex, PoisonError};

    use distlock_testkit::telemetry::{Listening, listen};

    pub(super) struct Telemetry {
        texts: Arc<Mutex<Vec<(String, String)>>>,
        _listening: Listening,
    }

    impl Telemetry {
        pub(super) fn listen() -> Self {
            let texts = Arc::<Mutex<Vec<_>>>::default();
            let of_all = Arc::clone(&texts);
            let listening = listen(move |it| {
                let mut texts = of_all.lock().unwrap_or_else(PoisonError::into_inner);
                texts.push(("telemetry".to_owned(), format!("{it:?}")));
            });
            Self { texts, _listening: listening }
        }

        pub(super) fn all(&self) -> Vec<(String, String)> {
            let emitted = self.texts.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let has = |what: &str| emitted.iter().any(|(_, text)| text.contains(what));
            assert!(has("Opened") && has("Logged") && has("Measured"), "nothing was emitted");
            emitted
        }
    }
}

impl Shown {
    /// Collects no telemetry, for tests with a listener of their own.
    #[allow(dead_code)] // only tests of passwords and certificates use it
    pub(crate) fn printed() -> Self {
        Self { texts: Vec::new(), telemetry: None }
    }

    pub(crate) fn debug(&mut self, what: &str, value: &dyn Debug) {
        self.texts.push((format!("{what}, {{:?}}"), format!("{value:?}")));
        self.texts.push((format!("{what}, {{:#?}}"), format!("{value:#?}")));
    }

    /// Adds the whole chain of sources in display and debug format.
    pub(crate) fn error(&mut self, what: &str, error: &(dyn Error + 'static)) {
        let mut next = Some(error);
        while let Some(error) = next {
            self.debug(what, &error);
            self.texts.push((format!("{what}, {{}}"), error.to_string()));
            next = error.source();
        }
    }

    /// Fails if a text contains one of these secrets, as text or as a list of its bytes.
    pub(crate) fn has_none_of(&self, secrets: &[&str]) {
        assert!(!self.texts.is_empty() && !secrets.is_empty(), "nothing to search");
        let bytes = |secret: &str| format!("{:?}", secret.as_bytes()).replace(['[', ']', ' '], "");
        let secrets: Vec<_> = secrets.iter().map(|secret| (*secret, bytes(secret))).collect();
        for (secret, _) in &secrets {
            assert!(secret.len() > 3, "{secret:?} is too short: it may occur by chance");
        }
        let emitted = self.telemetry.as_ref().map(telemetry::Telemetry::all).unwrap_or_default();
        let shown: Vec<_> = self.texts.iter().cloned().chain(emitted).collect();
        for (what, text) in &shown {
            let packed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            for (secret, bytes) in &secrets {
                assert!(
                    !text.contains(secret) && !packed.contains(bytes),
                    "{what} shows a secret: {text}"
                );
            }
        }
    }

    pub(crate) async fn builder(&mut self, builder: &Builder) {
        self.debug("Builder", builder);
        match builder.clone().connect().await {
            Ok(client) => {
                self.client(&client).await;
                client.close().await.expect("closed");
                let error = client.mutex("closed").lock().await.expect_err("the client is closed");
                self.error("a closed client's error", &error);
            }
            Err(error) => self.error("connecting", &error),
        }
    }

    /// Adds the debug text of every type that comes from a client.
    pub(crate) async fn client(&mut self, client: &Client) {
        self.debug("Client", client);
        let (mutex, rw_lock) = (client.mutex("secrets"), client.rw_lock("secrets"));
        let (semaphore, election) = (client.semaphore("secrets", 2), client.election("secrets"));
        self.debug("Mutex", &mutex);
        self.debug("RwLock", &rw_lock);
        self.debug("Semaphore", &semaphore);
        self.debug("Election", &election);
        let mut queue = mutex.watch_queue().expect("a name");
        let guard = mutex.lock().await.expect("granted");
        self.debug("LockGuard", &guard);
        self.debug("QueueEntry", &mutex.queue().await.expect("a reply"));
        let seen = within(SOON, "the queue is shown", queue.next()).await;
        self.debug("QueueEntry, watched", &seen);
        self.debug("QueueWatch", &queue);
        assert!(mutex.request_release("it is due").await.expect("a reply"));
        self.debug(
            "ReleaseRequest",
            &within(SOON, "the request arrives", guard.release_requested()).await,
        );
        guard.unlock().await.expect("released");
        let all = client.lock_all(["secrets", "of all"]).await.expect("granted");
        self.debug("MultiLockGuard", &all);
        all.unlock().await.expect("released");
        let writer = rw_lock.write().await.expect("granted");
        self.debug("WriteGuard", &writer);
        let reader = writer.downgrade().await.expect("a reader");
        self.debug("ReadGuard", &reader);
        reader.unlock().await.expect("released");
        let permit = semaphore.acquire().await.expect("granted");
        self.debug("Permit", &permit);
        let error = semaphore.acquire_many(3).await.expect_err("more permits than exist");
        self.error("InvalidArgument of permits", &error);
        permit.release().await.expect("released");
        let leadership = election.campaign("leader").await.expect("elected");
        self.debug("Leadership", &leadership);
        let mut observe = election.observe().expect("a name");
        self.debug("Leader", &within(SOON, "the leader is observed", observe.next()).await);
        self.debug("Observe", &observe);
        leadership.resign().await.expect("resigned");
        let error = client.mutex("").lock().await.expect_err("no name");
        self.error("InvalidArgument of a name", &error);
        #[cfg(feature = "blocking")]
        self.held(client).await;
    }

    #[cfg(feature = "blocking")]
    async fn held(&mut self, client: &Client) {
        let guard = client.mutex("secrets").lock().await.expect("granted");
        guard.run_blocking(|held| self.debug("Held", &held)).expect("the lock is held");
        guard.unlock().await.expect("released");
    }
}

/// Returns the lines of a private key, each of which is a secret.
#[allow(dead_code)] // unused without network stores
pub(crate) fn lines_of(key: &str) -> Vec<&str> {
    key.lines().filter(|line| !line.contains("-----") && line.len() > 8).collect()
}
