/* The TILE_ROWS rows and TILE_VECTORS vectors of a register tile, in named variables, which every compiler keeps in
 * registers: t00 .. t53. Products are added with a row of TILE_VECTORS vectors, x0 .. x3. It is part of the kernel text
 * of gemm.c and conv2d_flat.c, which include it. */
#ifndef HAUL_OPS_MATMUL_TILE_KERNEL_H
#define HAUL_OPS_MATMUL_TILE_KERNEL_H

// clang-format off
#if defined(HAUL_KERNEL) && IS_FLOAT
enum { TILE_WIDTH = TILE_VECTORS * LANES };

TEMPLATE(tile_zero_row, R)
        V t##R##0 = VSPLAT(LIT(0.0)), t##R##1 = t##R##0, t##R##2 = t##R##0, t##R##3 = t##R##0;
END_TEMPLATE
/* Declares the tile. */
TEMPLATE(tile_zero)
        EXPAND(tile_zero_row, 0)
        EXPAND(tile_zero_row, 1)
        EXPAND(tile_zero_row, 2)
        EXPAND(tile_zero_row, 3)
        EXPAND(tile_zero_row, 4)
        EXPAND(tile_zero_row, 5)
END_TEMPLATE

/* Declares x0 .. x3, from FROM. */
TEMPLATE(tile_load, FROM)
        const V x0 = VLOAD(FROM), x1 = VLOAD(FROM + LANES), x2 = VLOAD(FROM + 2 * LANES), x3 = VLOAD(FROM + 3 * LANES);
END_TEMPLATE

TEMPLATE(tile_add_row, R, FACTOR)
        {
            const V factor = VSPLAT(FACTOR);
            t##R##0 = VFMA(factor, x0, t##R##0);
            t##R##1 = VFMA(factor, x1, t##R##1);
            t##R##2 = VFMA(factor, x2, t##R##2);
            t##R##3 = VFMA(factor, x3, t##R##3);
        }
END_TEMPLATE
/* Adds x0 .. x3 times a factor to each row. */
TEMPLATE(tile_add, F0, F1, F2, F3, F4, F5)
        EXPAND(tile_add_row, 0, F0)
        EXPAND(tile_add_row, 1, F1)
        EXPAND(tile_add_row, 2, F2)
        EXPAND(tile_add_row, 3, F3)
        EXPAND(tile_add_row, 4, F4)
        EXPAND(tile_add_row, 5, F5)
END_TEMPLATE

TEMPLATE(tile_store_row, R, TO)
        {
            VSTORE(TO, t##R##0);
            VSTORE(TO + LANES, t##R##1);
            VSTORE(TO + 2 * LANES, t##R##2);
            VSTORE(TO + 3 * LANES, t##R##3);
        }
END_TEMPLATE
/* Stores all of it in an array of rows. */
TEMPLATE(tile_store, ROWS)
        EXPAND(tile_store_row, 0, ROWS[0])
        EXPAND(tile_store_row, 1, ROWS[1])
        EXPAND(tile_store_row, 2, ROWS[2])
        EXPAND(tile_store_row, 3, ROWS[3])
        EXPAND(tile_store_row, 4, ROWS[4])
        EXPAND(tile_store_row, 5, ROWS[5])
END_TEMPLATE
#endif
// clang-format on

#endif
