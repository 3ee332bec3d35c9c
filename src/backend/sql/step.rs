//! The most frequent requests: joining or leaving one queue.

use crate::backend::Joiner;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Join {
        dir: String,
        ticket: String,
        label: String,
        value: Vec<u8>,
        if_free: bool,
    },
    Leave {
        dir: String,
        ticket: String,
        label: String,
        number: Option<i64>,
        successor: Option<i64>,
    },
}

/// The kind of a step. Steps of one kind are sent together when many wait for the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Join,
    Leave,
}

impl Step {
    pub(crate) fn join(Joiner { queue, ticket }: Joiner<'_>, value: &[u8], if_free: bool) -> Self {
        Self::Join {
            dir: queue.dir().to_owned(),
            ticket: ticket.to_string(),
            label: queue.label().to_owned(),
            value: value.to_owned(),
            if_free,
        }
    }

    /// `number` is the entry's number if it is known, and `successor` that of the entry behind it.
    pub(crate) fn leave(
        Joiner { queue, ticket }: Joiner<'_>,
        number: Option<u64>,
        successor: Option<u64>,
    ) -> Self {
        // Numbers drawn by the server fit.
        let fits = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok());
        Self::Leave {
            dir: queue.dir().to_owned(),
            ticket: ticket.to_string(),
            label: queue.label().to_owned(),
            number: fits(number),
            successor: fits(successor),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Join { .. } => Kind::Join,
            Self::Leave { .. } => Kind::Leave,
        }
    }

    /// Returns the queue of the step.
    pub(crate) fn dir(&self) -> &str {
        let (Self::Join { dir, .. } | Self::Leave { dir, .. }) = self;
        dir
    }

    pub(crate) fn ticket(&self) -> &str {
        let (Self::Join { ticket, .. } | Self::Leave { ticket, .. }) = self;
        ticket
    }

    pub(crate) fn label(&self) -> &str {
        let (Self::Join { label, .. } | Self::Leave { label, .. }) = self;
        label
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn value(&self) -> &[u8] {
        match self {
            Self::Join { value, .. } => value,
            Self::Leave { .. } => &[],
        }
    }
}
