//! A bounded number of unpacked blocks. When all slots are taken, a block that was not used for long makes room.

use crate::compression::BLOCK_BYTES;

pub(crate) struct Slots {
    slots: Vec<Slot>,
    capacity: usize,
    /// Goes round: a slot that was used since it last came by is passed over once.
    hand: usize,
}

pub(crate) struct Slot {
    pub(crate) length: usize,
    pub(crate) bytes: Box<[u8]>,
    block: usize,
    is_recent: bool,
}

impl Slots {
    /// At least one slot; they are allocated when they are first needed.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { slots: Vec::new(), capacity: capacity.max(1), hand: 0 }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn get(&mut self, slot: usize) -> &Slot {
        let slot = &mut self.slots[slot];
        slot.is_recent = true;
        slot
    }

    /// A slot for `block` to be unpacked into, and the block that has to leave it.
    pub(crate) fn take(&mut self, block: usize) -> (usize, Option<usize>) {
        if self.slots.len() < self.capacity {
            let bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
            self.slots.push(Slot { length: 0, bytes, block, is_recent: true });
            return (self.slots.len() - 1, None);
        }
        while std::mem::take(&mut self.slots[self.hand].is_recent) {
            self.hand = (self.hand + 1) % self.capacity;
        }
        let slot = self.hand;
        self.hand = (self.hand + 1) % self.capacity;
        (slot, Some(std::mem::replace(&mut self.slots[slot].block, block)))
    }

    pub(crate) fn unpacked(&mut self, slot: usize) -> &mut Slot {
        &mut self.slots[slot]
    }
}
