//! Runs a session's task on the thread that wakes it.

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

/// Runs the tasks that the crate spawns while `connecting` is polled in the same way.
pub(super) async fn inline<T>(connecting: impl Future<Output = T>) -> T {
    let mut connecting = pin!(connecting);
    let inline = Inline::new(Executor::here());
    poll_fn(|context| {
        let _scope = enter(&inline);
        connecting.as_mut().poll(context)
    })
    .await
}
