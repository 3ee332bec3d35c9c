//! What only test builds have (`--cfg distlock_rigged`, see `docker/rigged-rustc`): a look at the library from inside.

/// How many tasks the library's own runtime has: sessions, watches, releases that go on in the background. After all clients are gone it
/// has none left.
#[must_use]
pub fn alive_tasks() -> usize {
    crate::runtime::handle().map_or(0, |runtime| runtime.metrics().num_alive_tasks())
}
