/* A model is compiled with -DNAME to leave a rule out; in its code: `if (LEFT_OUT(NAME))`. */
#ifndef MODELS_MUTANT_H
#define MODELS_MUTANT_H

/* 1 if the macro is defined as 1, which is what -D does; else 0. */
#define MUTANT_IS_1              1,
#define MUTANT_SECOND(a, b, ...) b
#define MUTANT_PICK(maybe)       MUTANT_SECOND(maybe 1, 0, 0)
#define MUTANT_JOIN(a, b)        a##b
#define MUTANT_LOOK(value)       MUTANT_PICK(MUTANT_JOIN(MUTANT_IS_, value))
#define LEFT_OUT(name)           MUTANT_LOOK(name)

#endif
