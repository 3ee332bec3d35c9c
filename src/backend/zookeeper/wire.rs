//! How a session's task is run: by the one who wakes it.

use std::{
    future::{Future, poll_fn},
    pin::pin,
};

use spawns_core::{Spawn, Task, enter};

use crate::runtime::{executor::Executor, inline::Inline};

impl Spawn for Inline {
    fn spawn(&self, task: Task) {
        Self::spawn(self, Box::into_pin(task.future));
    }
}

/// Has what the crate spawns meanwhile run so.
pub(super) async fn inline<T>(connecting: impl Future<Output = T>) -> T {
    let mut connecting = pin!(connecting);
    let inline = Inline::new(Executor::here());
    poll_fn(|context| {
        let _scope = enter(&inline);
        connecting.as_mut().poll(context)
    })
    .await
}
