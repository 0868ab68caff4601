//! Classic BPF with forward labels (linux/bpf_common.h; McCanne and Jacobson, 1993).

/// One instruction, laid out as the kernel's `struct sock_filter`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    /// Instructions to skip when the condition holds.
    pub(crate) jump_true: u8,
    /// Instructions to skip when the condition does not hold.
    pub(crate) jump_false: u8,
    pub(crate) operand: u32,
}

pub(crate) const LOAD_HALF: u16 = 0x28;
pub(crate) const LOAD_BYTE: u16 = 0x30;
pub(crate) const LOAD_HALF_INDEXED: u16 = 0x48;
/// Sets the index register to four times the low nibble of a byte, which is an IPv4 header's length.
pub(crate) const LOAD_INDEX_NIBBLE: u16 = 0xb1;
pub(crate) const JUMP: u16 = 0x05;
pub(crate) const JUMP_EQUAL: u16 = 0x15;
pub(crate) const JUMP_ANY_BIT: u16 = 0x45;
pub(crate) const RETURN: u16 = 0x06;

/// A place in the program that may not be known yet.
#[derive(Clone, Copy)]
pub(super) struct Label(usize);

#[derive(Clone, Copy)]
enum When {
    Always,
    True,
    False,
}

/// Collects instructions; jumps only go forward, as the kernel requires.
#[derive(Default)]
pub(super) struct Assembler {
    instructions: Vec<Instruction>,
    places: Vec<usize>,
    jumps: Vec<(usize, Label, When)>,
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.places.push(usize::MAX);
        Label(self.places.len() - 1)
    }

    /// Places the label at the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.places[label.0] = self.instructions.len();
    }

    pub(super) fn load_half(&mut self, at: usize) {
        self.push(LOAD_HALF, at as u32);
    }

    pub(super) fn load_byte(&mut self, at: usize) {
        self.push(LOAD_BYTE, at as u32);
    }

    /// Loads relative to the index register.
    pub(super) fn load_half_indexed(&mut self, at: usize) {
        self.push(LOAD_HALF_INDEXED, at as u32);
    }

    /// Sets the index register to the length of the IPv4 header at an offset.
    pub(super) fn load_index_of_header(&mut self, at: usize) {
        self.push(LOAD_INDEX_NIBBLE, at as u32);
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.jump_with(JUMP, 0, to, When::Always);
    }

    pub(super) fn jump_if_equal(&mut self, value: u32, to: Label) {
        self.jump_with(JUMP_EQUAL, value, to, When::True);
    }

    pub(super) fn jump_unless_equal(&mut self, value: u32, to: Label) {
        self.jump_with(JUMP_EQUAL, value, to, When::False);
    }

    pub(super) fn jump_if_any(&mut self, bits: u32, to: Label) {
        self.jump_with(JUMP_ANY_BIT, bits, to, When::True);
    }

    pub(super) fn answer(&mut self, value: u32) {
        self.push(RETURN, value);
    }

    /// Returns the program with its jumps filled in.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (at, label, when) in self.jumps {
            let skip = self.places[label.0] - at - 1;
            let instruction = &mut self.instructions[at];
            match when {
                When::Always => instruction.operand = skip as u32,
                When::True => instruction.jump_true = skip as u8,
                When::False => instruction.jump_false = skip as u8,
            }
        }
        self.instructions
    }

    fn jump_with(&mut self, code: u16, operand: u32, to: Label, when: When) {
        self.jumps.push((self.instructions.len(), to, when));
        self.push(code, operand);
    }

    fn push(&mut self, code: u16, operand: u32) {
        self.instructions.push(Instruction {
            code,
            jump_true: 0,
            jump_false: 0,
            operand,
        });
    }
}
