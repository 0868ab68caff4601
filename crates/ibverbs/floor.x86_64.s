# The library runs on glibc 2.31 although it is linked on newer ones.
#
# Linked with --wrap for each name below, so that what std calls by the newest version goes to the
# version that every glibc has: pthread_* and dlsym moved into libc.so.6 in 2.34, fstat64 became a
# function of its own in 2.33. A jump keeps the caller's return address, by which dlsym finds whose
# "next" is meant.

.section .note.GNU-stack,"",%progbits
.text

.macro older name, version=GLIBC_2.2.5
.symver older_\name, \name@\version
.globl __wrap_\name
.hidden __wrap_\name
.type __wrap_\name, %function
.balign 16
__wrap_\name:
	jmp *older_\name@GOTPCREL(%rip)
.endm

older dlsym
older pthread_attr_getguardsize
older pthread_attr_getstack
older pthread_attr_setstacksize
older pthread_create
older pthread_detach
older pthread_getattr_np
older pthread_join
older pthread_key_create
older pthread_key_delete
older pthread_setname_np, GLIBC_2.12
older pthread_setspecific

# int fstat64(int fd, struct stat64 *to) as __fxstat64(version 1, fd, to)
.symver older_fxstat64, __fxstat64@GLIBC_2.2.5
.globl __wrap_fstat64
.hidden __wrap_fstat64
.type __wrap_fstat64, %function
.balign 16
__wrap_fstat64:
	movq %rsi, %rdx
	movl %edi, %esi
	movl $1, %edi
	jmp *older_fxstat64@GOTPCREL(%rip)
