//! The guest of a migration: a boot sector that writes to scattered pages without end.
//!
//! In protected mode it adds a counter that never repeats to one word of every 32 KiB from 1 MiB to 255 MiB, and after
//! each pass sends a letter to the serial port. Dirty pages that are not adjacent travel one by one, which makes a
//! migration expensive.

/// Size of the disk: the BIOS reads by cylinders, and a smaller disk has none.
const DISK_BYTES: usize = 1 << 20;

/// Marks a sector as bootable.
const SIGNATURE: [u8; 2] = [0x55, 0xaa];
const SIGNATURE_AT: usize = 510;

/// The code, loaded at 0x7c00.
#[rustfmt::skip]
const CODE: &[u8] = &[
    // 16 bits: into protected mode
    0xfa,                               //        cli
    0x31, 0xc0,                         //        xor ax, ax
    0x8e, 0xd8,                         //        mov ds, ax
    0x0f, 0x01, 0x16, 0x3e, 0x7c,       //        lgdt [table]
    0x0f, 0x20, 0xc0,                   //        mov eax, cr0
    0x66, 0x83, 0xc8, 0x01,             //        or eax, 1
    0x0f, 0x22, 0xc0,                   //        mov cr0, eax
    0xea, 0x19, 0x7c, 0x08, 0x00,       //        jmp 8:flat
    // 32 bits: write
    0x66, 0xb8, 0x10, 0x00,             // flat:  mov ax, 16
    0x8e, 0xd8,                         //        mov ds, ax
    0xbf, 0x00, 0x00, 0x10, 0x00,       // again: mov edi, 0x100000
    0x43,                               // next:  inc ebx
    0x01, 0x1f,                         //        add [edi], ebx
    0x81, 0xc7, 0x00, 0x80, 0x00, 0x00, //        add edi, 0x8000
    0x81, 0xff, 0x00, 0x00, 0xf0, 0x0f, //        cmp edi, 0xff00000
    0x72, 0xef,                         //        jb next
    0x66, 0xba, 0xf8, 0x03,             //        mov dx, 0x3f8
    0xb0, 0x77,                         //        mov al, 'w'
    0xee,                               //        out dx, al
    0xeb, 0xe1,                         //        jmp again
    // table: its limit and place, no segment, all memory as code, all memory as data
    0x17, 0x00, 0x44, 0x7c, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0xff, 0xff, 0x00, 0x00, 0x00, 0x9a, 0xcf, 0x00,
    0xff, 0xff, 0x00, 0x00, 0x00, 0x92, 0xcf, 0x00,
];

/// A disk that begins with the boot sector.
pub(super) fn disk() -> Vec<u8> {
    let mut disk = vec![0; DISK_BYTES];
    disk[..CODE.len()].copy_from_slice(CODE);
    disk[SIGNATURE_AT..][..SIGNATURE.len()].copy_from_slice(&SIGNATURE);
    disk
}
