//! The power cut: what it leaves.

use fastrand::Rng;

use super::{Disk, tree::PAGE};

/// What a power cut does to changes that were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Forgets all of them.
    Forget,
    /// Leaves those that could have reached the disk by chance: the journal up to any change, and
    /// any pages. A file grows by its first new pages, without holes. Of a file whose last change
    /// of size, or creation, is forgotten, no page is left.
    Some,
}

impl Disk {
    /// Cuts the power. All processes that used the disk must have ended.
    pub(crate) fn cut(&mut self, cut: Cut, random: &mut Rng) {
        if cut == Cut::Some {
            self.leave_some(random);
        }
        self.live = self.durable.clone();
        self.journal.clear();
        self.needs.clear();
        self.dirty.clear();
        self.references.clear();
    }

    fn leave_some(&mut self, random: &mut Rng) {
        let left = random.u64(..=self.journal.len() as u64);
        self.commit(self.committed + left);
        let share = random.f64();
        let mut files: Vec<_> = std::mem::take(&mut self.dirty).into_iter().collect();
        files.sort_unstable_by_key(|(ino, _)| *ino);
        for (ino, dirty) in files {
            let changed = self.needs.get(&ino).copied().unwrap_or_default().fdatasync;
            let live = self.live.inodes.get_mut(&ino).and_then(|inode| inode.file_mut());
            let (Some(live), Some(durable), true) =
                (live, self.durable.file_mut(ino), changed <= self.committed)
            else {
                continue;
            };
            let old = (durable.size / PAGE as u64) as usize;
            for index in dirty {
                if random.f64() < share {
                    durable.page(index).clone_from(live.page(index));
                    let end = (index as u64 + 1) * PAGE as u64;
                    durable.size = durable.size.max(live.size.min(end));
                } else if index >= old {
                    break;
                }
            }
        }
    }
}
