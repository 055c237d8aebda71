//! Instructions by name, and jumps to places that are named later.

use crate::net::bpf::Instruction;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reg(pub(super) u8);

/// A program that is being written.
#[derive(Debug)]
pub(super) struct Assembler<L> {
    code: Vec<Instruction>,
    jumps: Vec<(usize, L)>,
    places: Vec<(L, usize)>,
}

/// How many bytes are loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

/// Helper functions (linux/bpf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helper {
    /// r0 = address of the value of the key at r2 in table r1, or 0.
    Lookup = 1,
    /// r0 = CLOCK_MONOTONIC in ns. Without a licence condition since Linux 5.8.
    Now = 5,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum If {
    Equal = 0x10,
    Greater = 0x20,
    NotLess = 0x30,
    NotEqual = 0x50,
    Less = 0xa0,
}

impl<L: Copy + PartialEq> Assembler<L> {
    pub(super) fn new() -> Self {
        Self { code: Vec::new(), jumps: Vec::new(), places: Vec::new() }
    }

    /// The next instruction is at this place.
    pub(super) fn place(&mut self, label: L) -> &mut Self {
        self.places.push((label, self.code.len()));
        self
    }

    /// to = value
    pub(super) fn set(&mut self, to: Reg, value: i32) -> &mut Self {
        self.one(0xb7, to, Reg(0), 0, value)
    }

    /// to = from
    pub(super) fn copy(&mut self, to: Reg, from: Reg) -> &mut Self {
        self.one(0xbf, to, from, 0, 0)
    }

    /// to += value
    pub(super) fn add(&mut self, to: Reg, value: i32) -> &mut Self {
        self.one(0x07, to, Reg(0), 0, value)
    }

    /// to += from
    pub(super) fn add_reg(&mut self, to: Reg, from: Reg) -> &mut Self {
        self.one(0x0f, to, from, 0, 0)
    }

    /// to &= mask
    pub(super) fn and(&mut self, to: Reg, mask: i32) -> &mut Self {
        self.one(0x57, to, Reg(0), 0, mask)
    }

    /// to <<= bits
    pub(super) fn shift_left(&mut self, to: Reg, bits: i32) -> &mut Self {
        self.one(0x67, to, Reg(0), 0, bits)
    }

    /// to = what is at from + offset
    pub(super) fn load(&mut self, width: Width, to: Reg, from: Reg, offset: i16) -> &mut Self {
        self.one(0x61 | width as u8, to, from, offset, 0)
    }

    /// what is at to + offset = from
    pub(super) fn store(&mut self, width: Width, to: Reg, offset: i16, from: Reg) -> &mut Self {
        self.one(0x63 | width as u8, to, from, offset, 0)
    }

    /// what is at to + offset = value
    pub(super) fn store_value(
        &mut self,
        width: Width,
        to: Reg,
        offset: i16,
        value: i32,
    ) -> &mut Self {
        self.one(0x62 | width as u8, to, Reg(0), offset, value)
    }

    /// what is at to + offset += from, eight bytes, atomically
    pub(super) fn count(&mut self, to: Reg, offset: i16, from: Reg) -> &mut Self {
        self.one(0xdb, to, from, offset, 0)
    }

    /// to = the table's address
    pub(super) fn table(&mut self, to: Reg, table: u32) -> &mut Self {
        // BPF_PSEUDO_MAP_FD; a descriptor is a small positive number.
        self.one(0x18, to, Reg(1), 0, table.cast_signed());
        self.one(0, Reg(0), Reg(0), 0, 0)
    }

    pub(super) fn call(&mut self, helper: Helper) -> &mut Self {
        self.one(0x85, Reg(0), Reg(0), 0, helper as i32)
    }

    pub(super) fn exit(&mut self) -> &mut Self {
        self.one(0x95, Reg(0), Reg(0), 0, 0)
    }

    pub(super) fn jump(&mut self, label: L) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.one(0x05, Reg(0), Reg(0), 0, 0)
    }

    /// Jumps if the register compares so with the value.
    pub(super) fn jump_if(&mut self, a: Reg, how: If, value: i32, label: L) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.one(0x05 | how as u8, a, Reg(0), 0, value)
    }

    /// Jumps if the registers compare so.
    pub(super) fn jump_if_reg(&mut self, a: Reg, how: If, b: Reg, label: L) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.one(0x0d | how as u8, a, b, 0, 0)
    }

    /// The program.
    ///
    /// # Panics
    /// If a jump leads to no place: programs are written here, not read.
    pub(super) fn finish(self) -> Vec<Instruction> {
        let Self { mut code, jumps, places } = self;
        for (at, label) in jumps {
            let place = places.iter().find(|(place, _)| *place == label).expect("a place");
            code[at].offset = (place.1 as isize - at as isize - 1) as i16;
        }
        code
    }

    fn one(&mut self, code: u8, to: Reg, from: Reg, offset: i16, constant: i32) -> &mut Self {
        // Two bit fields, in the order of the machine.
        let registers =
            if cfg!(target_endian = "little") { from.0 << 4 | to.0 } else { to.0 << 4 | from.0 };
        self.code.push(Instruction { code, registers, offset, constant });
        self
    }
}
